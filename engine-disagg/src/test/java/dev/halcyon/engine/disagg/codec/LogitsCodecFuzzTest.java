package dev.halcyon.engine.disagg.codec;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Random;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.ShrinkingMode;
import net.jqwik.api.constraints.IntRange;

/** Damaged payloads decode to a tensor or are refused by a typed error, and nothing else. */
class LogitsCodecFuzzTest {

  private static final LogitsCodec CODEC = new LogitsCodec(3, 4096);

  @Property(tries = 10_000, shrinking = ShrinkingMode.OFF)
  void mutatedJsonIsReadOrRefused(
      @ForAll long seed, @ForAll @IntRange(min = 1, max = 6) int edits) {
    Random random = new Random(seed);
    byte[] damaged = Mutations.of(CODEC.toJsonBytes(tensor(random)), edits, random);
    try {
      LogitsTensor read = CODEC.fromJsonBytes(damaged, "logits");
      assertThat(CODEC.fromJsonBytes(CODEC.toJsonBytes(read), "logits")).isEqualTo(read);
    } catch (WireFormatException e) {
      assertThat(e.field()).startsWith("logits");
    }
  }

  @Property(tries = 10_000, shrinking = ShrinkingMode.OFF)
  void mutatedBinaryIsReadOrRefused(
      @ForAll long seed, @ForAll @IntRange(min = 1, max = 6) int edits) {
    Random random = new Random(seed);
    byte[] sound = CODEC.toBinary(List.of(tensor(random), tensor(random)));
    byte[] damaged = Mutations.of(sound, edits, random);
    try {
      List<LogitsTensor> read = CODEC.fromBinary(damaged, "logits");
      assertThat(CODEC.fromBinary(CODEC.toBinary(read), "logits")).isEqualTo(read);
    } catch (WireFormatException e) {
      assertThat(e.field()).startsWith("logits");
    }
  }

  private static LogitsTensor tensor(Random random) {
    WireType type = WireType.values()[random.nextInt(3)];
    int[] shape =
        random.nextBoolean()
            ? new int[] {1 + random.nextInt(4), 3}
            : new int[] {1 + random.nextInt(2), 1 + random.nextInt(3), 3};
    byte[] data = new byte[(int) LogitsTensor.bytes(type, shape)];
    random.nextBytes(data);
    return LogitsTensor.of(type, shape, data);
  }
}
