package dev.halcyon.engine.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RandomCheckpointTest {

  private static final ModelShape SHAPE = new ModelShape(64, 128, 2, 4, 2, 512);

  @TempDir Path cache;

  @Test
  void writesEveryTensorAtItsPlaceAndNothingElse() throws IOException {
    ByteBuffer file = weights(RandomCheckpoint.inCache(cache, SHAPE, 1));
    JsonNode header = header(file);

    assertThat(header.size()).isEqualTo(1 + SHAPE.tensors().size());
    long offset = 0;
    for (ModelShape.Tensor tensor : SHAPE.tensors()) {
      JsonNode entry = header.get(tensor.name());
      assertThat(entry.get("dtype").asText()).isEqualTo("BF16");
      assertThat(entry.get("data_offsets").get(0).asLong()).isEqualTo(offset);
      offset += 2 * tensor.elements();
      assertThat(entry.get("data_offsets").get(1).asLong()).isEqualTo(offset);
    }
    assertThat((long) file.remaining()).isEqualTo(offset);
  }

  @Test
  void drawsMatricesOfTheStatedSpread() throws IOException {
    ByteBuffer file = weights(RandomCheckpoint.inCache(cache, SHAPE, 1));
    header(file);
    double sum = 0;
    double squares = 0;
    int count = 512 * 64;
    for (int i = 0; i < count; i++) {
      double value = bf16(file, i);
      sum += value;
      squares += value * value;
    }
    // Five standard errors: 0.02 / sqrt(32768) = 1.1e-4 for the mean. Truncation to BF16 takes up
    // to
    // 2^-7 off a magnitude, so the spread lies within 1 % below 0.02 and sampling adds 0.4 %.
    assertThat(sum / count).isCloseTo(0, within(5.5e-4));
    assertThat(Math.sqrt(squares / count)).isBetween(0.0192, 0.0204);
  }

  @Test
  void specialTokensHaveNoLogitSoThatNoneIsEverChosen() throws IOException {
    ByteBuffer file = weights(RandomCheckpoint.inCache(cache, SHAPE, 1));
    int head = header(file).get("lm_head.weight").get("data_offsets").get(0).asInt() / Short.BYTES;
    for (int i = 0; i < 3 * 64; i++) {
      assertThat(bf16(file, head + i)).isZero();
    }
    assertThat(bf16(file, head + 3 * 64)).isNotZero();
  }

  @Test
  void theSameSeedGivesTheSameFileAndAnotherSeedAnother() throws IOException {
    Path first = RandomCheckpoint.inCache(cache.resolve("a"), SHAPE, 1);
    Path second = RandomCheckpoint.inCache(cache.resolve("b"), SHAPE, 1);
    Path third = RandomCheckpoint.inCache(cache.resolve("b"), SHAPE, 2);
    String file = "model.safetensors";
    assertThat(Files.mismatch(first.resolve(file), second.resolve(file))).isEqualTo(-1);
    assertThat(Files.mismatch(first.resolve(file), third.resolve(file))).isNotEqualTo(-1);
  }

  @Test
  void aCheckpointInTheCacheIsUsedAgain() throws IOException {
    Path first = RandomCheckpoint.inCache(cache, SHAPE, 1);
    Path mark = Files.createFile(first.resolve("mark"));
    assertThat(RandomCheckpoint.inCache(cache, SHAPE, 1)).isEqualTo(first);
    assertThat(mark).exists();
  }

  private static ByteBuffer weights(Path checkpoint) throws IOException {
    return ByteBuffer.wrap(Files.readAllBytes(checkpoint.resolve("model.safetensors")))
        .order(ByteOrder.LITTLE_ENDIAN);
  }

  /** Reads the header and cuts the buffer down to the data. */
  private static JsonNode header(ByteBuffer file) throws IOException {
    byte[] json = new byte[Math.toIntExact(file.getLong())];
    file.get(json);
    assertThat(file.position() % 8).isZero();
    return new ObjectMapper().readTree(new String(json, StandardCharsets.US_ASCII));
  }

  private static double bf16(ByteBuffer file, int index) {
    return Float.intBitsToFloat(file.getShort(file.position() + 2 * index) << 16);
  }
}
