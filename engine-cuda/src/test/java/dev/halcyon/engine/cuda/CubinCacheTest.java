package dev.halcyon.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CubinCacheTest {

  private static final List<String> INPUTS = List.of("source", "header", "-O3", "sm_90a", "13.1");

  @TempDir Path folder;
  private int compiled;

  private byte[] get(CubinCache cache, List<String> inputs) {
    return cache.get(
        inputs,
        () -> {
          compiled++;
          return ("code of " + inputs).getBytes();
        });
  }

  private Path onlyFile(Path where) throws IOException {
    try (Stream<Path> files = Files.list(where)) {
      return files.reduce((a, b) -> null).orElseThrow();
    }
  }

  @Test
  void compilesOnce() throws IOException {
    Path deep = folder.resolve("a").resolve("b");
    assertThat(get(new CubinCache(deep), INPUTS)).asString().isEqualTo("code of " + INPUTS);
    assertThat(get(new CubinCache(deep), INPUTS)).asString().isEqualTo("code of " + INPUTS);
    assertThat(compiled).isEqualTo(1);
    // One file, and no part of one is left.
    assertThat(onlyFile(deep).getFileName().toString()).matches("[0-9a-f]{64}\\.bin");
  }

  @Test
  void everyInputCounts() {
    CubinCache cache = new CubinCache(folder);
    get(cache, INPUTS);
    for (int i = 0; i < INPUTS.size(); i++) {
      List<String> other = new java.util.ArrayList<>(INPUTS);
      other.set(i, "other");
      get(cache, other);
    }
    // The same text, cut elsewhere.
    get(cache, List.of("sourceheader", "", "-O3", "sm_90a", "13.1"));
    assertThat(compiled).isEqualTo(7);
  }

  @Test
  void damagedFilesAreCompiledAgain() throws IOException {
    CubinCache cache = new CubinCache(folder);
    byte[] code = get(cache, INPUTS);
    Path file = onlyFile(folder);
    byte[] whole = Files.readAllBytes(file);
    byte[] flipped = whole.clone();
    flipped[whole.length - 1] ^= 1;
    for (byte[] damaged :
        List.of(flipped, new byte[0], java.util.Arrays.copyOf(whole, whole.length - 1))) {
      int before = compiled;
      Files.write(file, damaged);
      assertThat(get(cache, INPUTS)).isEqualTo(code);
      assertThat(compiled).isEqualTo(before + 1);
      assertThat(Files.readAllBytes(file)).isEqualTo(whole);
    }
  }

  @Test
  void goesOnWhereNothingCanBeWritten() throws IOException {
    Path file = Files.createFile(folder.resolve("file"));
    CubinCache cache = new CubinCache(file.resolve("below"));
    assertThat(get(cache, INPUTS)).isEqualTo(get(cache, INPUTS));
    assertThat(compiled).isEqualTo(2);
  }
}
