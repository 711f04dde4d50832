package dev.halcyon.engine.tokenizer;

import dev.halcyon.engine.weights.ModelFiles;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** Files in memory. */
public record MapFiles(Map<String, byte[]> content) implements ModelFiles {

  public static MapFiles of(String... namesAndTexts) {
    Map<String, byte[]> content = new TreeMap<>();
    for (int i = 0; i < namesAndTexts.length; i += 2) {
      content.put(namesAndTexts[i], namesAndTexts[i + 1].getBytes(StandardCharsets.UTF_8));
    }
    return new MapFiles(content);
  }

  /** A folder of fixtures/tokenizers. */
  public static MapFiles tokenizerFixture(String kind) {
    return of(
        "tokenizer.json", text("/fixtures/tokenizers/" + kind + "/tokenizer.json"),
        "tokenizer_config.json", text("/fixtures/tokenizers/" + kind + "/tokenizer_config.json"));
  }

  public static String text(String resource) {
    try (InputStream in = MapFiles.class.getResourceAsStream(resource)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  public MapFiles with(String name, String text) {
    Map<String, byte[]> changed = new TreeMap<>(content);
    changed.put(name, text.getBytes(StandardCharsets.UTF_8));
    return new MapFiles(changed);
  }

  @Override
  public String description() {
    return "the test's checkpoint";
  }

  @Override
  public List<String> names() {
    return List.copyOf(content.keySet());
  }

  @Override
  public Optional<byte[]> read(String name) {
    return Optional.ofNullable(content.get(name));
  }

  @Override
  public long size(String name) {
    return content.get(name).length;
  }

  @Override
  public ByteBuffer map(String name, long offset, int length) {
    throw new UnsupportedOperationException();
  }
}
