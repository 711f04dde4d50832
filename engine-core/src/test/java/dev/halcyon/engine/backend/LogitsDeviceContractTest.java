package dev.halcyon.engine.backend;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.logits.HostBuffer;
import dev.halcyon.engine.logits.LogitsType;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * What every backend must do with parts of buffers, copies and conversions. A backend's test
 * extends this.
 */
public abstract class LogitsDeviceContractTest {

  private static final float POISON = BackendHarness.POISON;

  private Backend backend;
  private BackendHarness harness;

  /** Opens the backend under test. */
  protected abstract Backend open(BackendOptions options);

  @BeforeEach
  void openBackend() {
    backend = open(new BackendOptions(2, 64L << 20, 64L << 20, 0));
    harness = new BackendHarness(backend);
  }

  @AfterEach
  void closeBackend() {
    assertThat(backend.memory().used()).as("leaked device memory").isZero();
    assertThat(backend.hostMemory().used()).as("leaked host memory").isZero();
    backend.close();
  }

  private DeviceBuffer buffer(float... values) {
    DeviceBuffer buffer = backend.memory().allocate(4L * values.length, "a test");
    backend.write(values, 0, values.length, buffer, 0);
    return buffer;
  }

  private float[] read(DeviceBuffer buffer) {
    float[] values = new float[(int) (buffer.bytes() / 4)];
    backend.read(buffer, LogitsType.F32, 0, values.length, values, 0);
    return values;
  }

  /** A buffer of 16-bit elements, written as pairs. */
  private DeviceBuffer halves(short... bits) {
    float[] pairs = new float[(bits.length + 1) / 2];
    for (int i = 0; i < pairs.length; i++) {
      int high = 2 * i + 1 < bits.length ? bits[2 * i + 1] : 0;
      pairs[i] = Float.intBitsToFloat(high << 16 | bits[2 * i] & 0xffff);
    }
    return buffer(pairs);
  }

  private static void assertRefused(ThrowingCallable call) {
    assertThatThrownBy(call).isInstanceOf(IllegalArgumentException.class);
  }

  @Test
  void partsAreTheSameMemory() {
    try (DeviceBuffer whole = buffer(0, 1, 2, 3, 4, 5, 6, 7)) {
      long used = backend.memory().used();
      DeviceBuffer part = whole.slice(8, 20);
      DeviceBuffer inner = part.slice(4, 12);
      assertThat(inner.bytes()).isEqualTo(12);
      assertThat(read(part)).containsExactly(2, 3, 4, 5, 6);
      assertThat(read(inner)).containsExactly(3, 4, 5);
      backend.write(new float[] {9}, 0, 1, inner, 2);
      inner.close();
      part.close();
      part.close();
      assertThat(backend.memory().used()).isEqualTo(used);
      assertThat(read(whole)).containsExactly(0, 1, 2, 3, 4, 9, 6, 7);
      assertThat(whole.slice(32, 0).bytes()).isZero();
    }
  }

  @ParameterizedTest
  @CsvSource({"-4, 4", "0, -4", "0, 36", "4, 32", "36, 0", "4, 9223372036854775807"})
  void partsLieInside(long offset, long bytes) {
    try (DeviceBuffer whole = buffer(new float[8])) {
      assertThatThrownBy(() -> whole.slice(offset, bytes))
          .isInstanceOf(IndexOutOfBoundsException.class);
      DeviceBuffer most = whole.slice(0, 28);
      assertThatThrownBy(() -> most.slice(4, 28)).isInstanceOf(IndexOutOfBoundsException.class);
    }
  }

  @Test
  void partsAreGoneWithTheirBuffer() {
    DeviceBuffer whole = buffer(1, 2, 3);
    DeviceBuffer part = whole.slice(4, 8);
    whole.close();
    try (DeviceBuffer other = buffer(1, 2);
        HostBuffer host = backend.hostMemory().allocate(8, "a test")) {
      Stream.<ThrowingCallable>of(
              () -> read(part),
              () -> backend.write(new float[1], 0, 1, part, 0),
              () -> backend.copy(part, other, 8),
              () -> backend.copy(other, part, 8),
              () -> backend.download(part, 2, host, 0),
              () -> backend.transformLogits(part, 1, 2, 2, 0),
              () -> part.slice(0, 4))
          .forEach(use -> assertThatThrownBy(use).isInstanceOf(IllegalStateException.class));
      assertThat(backend.memory().used()).isEqualTo(8);
      part.close();
      assertThat(backend.memory().used()).isEqualTo(8);
    }
  }

  /** The second has more products than any backend treats one by one. */
  @ParameterizedTest
  @CsvSource({"3, 5, 4", "48, 301, 350"})
  void linearTakesParts(int rows, int in, int out) {
    Random random = new Random(rows);
    float[] x = harness.random((rows + 2) * in, 1, random);
    float[] w = TestTensors.random(DType.F32, out * in, 1, random);
    float[] own = Arrays.copyOfRange(x, in, (rows + 1) * in);
    try (Matrix weight = backend.load(List.of(TestTensors.tensor(DType.F32, out, in, w)));
        DeviceBuffer ownFrom = harness.filled(rows, in, own);
        DeviceBuffer ownTo = harness.poisoned(rows, out);
        DeviceBuffer from = harness.filled(rows + 2, in, x);
        DeviceBuffer to = harness.poisoned(rows + 2, out)) {
      backend.linear(ownFrom, rows, weight, null, ownTo);
      backend.linear(part(from, 1, rows, in), rows, weight, null, part(to, 1, rows, out));
      assertRows(to, harness.read(ownTo, rows * out), rows, out);
      assertRefused(() -> backend.linear(from, rows, weight, null, part(to, 3, rows - 1, out)));
    }
  }

  private DeviceBuffer part(DeviceBuffer buffer, int row, int rows, int cols) {
    return buffer.slice(backend.activationBytes(row, cols), backend.activationBytes(rows, cols));
  }

  /** Requires rows from the second one on, and poison around them. */
  private void assertRows(DeviceBuffer buffer, float[] expected, int rows, int cols) {
    float[] all = harness.read(buffer, (rows + 2) * cols);
    for (int i = 0; i < all.length; i++) {
      boolean inside = i >= cols && i < (rows + 1) * cols;
      if (all[i] != (inside ? expected[i - cols] : POISON)) {
        throw new AssertionError("element " + i + " is " + all[i]);
      }
    }
  }

  @Test
  void rowOperationsTakeParts() {
    int cols = 6;
    float[] x = {1, 2, 3, 4, 5, 6, -1, 0, 1, 0, 2, 0, 7, 8, 9, 10, 11, 12, 3, 3, 3, 1, 1, 1};
    try (Matrix ones = harness.vector(new float[] {1, 1, 1, 1, 1, 1});
        DeviceBuffer from = harness.filled(4, cols, x);
        DeviceBuffer to = harness.poisoned(4, cols);
        DeviceBuffer gated = harness.poisoned(4, 3)) {
      DeviceBuffer in = part(from, 1, 2, cols);
      DeviceBuffer out = part(to, 1, 2, cols);
      backend.gatherRows(in, cols, new int[] {1, 0}, 2, out);
      assertRows(to, new float[] {7, 8, 9, 10, 11, 12, -1, 0, 1, 0, 2, 0}, 2, cols);
      backend.transformLogits(out, 2, cols, 2, 0);
      assertRows(to, new float[] {14, 16, 18, 20, 22, 24, -2, 0, 2, 0, 4, 0}, 2, cols);
      // The second row's mean square is (1 + 1 + 4) / 6 = 1, so with no eps it stays.
      backend.rmsNorm(part(from, 1, 1, cols), ones, 0, 0, 1, part(to, 1, 1, cols));
      backend.rmsNorm(part(from, 1, 1, cols), ones, 0, 0, 1, part(to, 2, 1, cols));
      assertRows(to, new float[] {-1, 0, 1, 0, 2, 0, -1, 0, 1, 0, 2, 0}, 2, cols);
      // x * Phi(x) of 0 is 0; of 7 to 9, Phi is 1 to float32.
      backend.gatedActivation(in, 2, 3, Activation.GELU, part(gated, 1, 2, 3));
      float[] second = Arrays.copyOfRange(harness.read(gated, 12), 6, 9);
      assertThat(second).containsExactly(70, 88, 108);
      backend.embed(ones, backend.upload(BackendHarness.tokens(0)), 3, part(to, 2, 1, cols));
      assertRows(to, new float[] {-1, 0, 1, 0, 2, 0, 3, 3, 3, 3, 3, 3}, 2, cols);
    }
  }

  @Test
  void outputsThatOverlapInputsAreRefused() {
    float[] w = {1, 0, 0, 1};
    try (Matrix weight = backend.load(List.of(TestTensors.tensor(DType.F32, 2, 2, w)));
        DeviceBuffer x = harness.filled(4, 2, new float[] {1, 2, 3, 4, 5, 6, 7, 8})) {
      assertRefused(() -> backend.linear(x, 2, weight, null, x));
      assertRefused(() -> backend.linear(x, 2, weight, null, part(x, 1, 2, 2)));
      assertRefused(() -> backend.copy(x.slice(0, 4), x.slice(2, 4), 4));
      backend.linear(x, 2, weight, null, part(x, 2, 2, 2));
      assertThat(harness.read(x, 8)).containsExactly(1, 2, 3, 4, 1, 2, 3, 4);
    }
  }

  @Test
  void writeAndReadTakeRanges() {
    try (DeviceBuffer buffer = buffer(0, 0, 0, 0, 0)) {
      backend.write(new float[] {1, 2, 3, 4}, 1, 2, buffer, 2);
      assertThat(read(buffer)).containsExactly(0, 0, 2, 3, 0);
      float[] to = {7, 7, 7, 7};
      backend.read(buffer, LogitsType.F32, 1, 2, to, 2);
      assertThat(to).containsExactly(7, 7, 0, 2);
      assertRefused(() -> backend.write(new float[4], 0, 4, buffer, 2));
      assertRefused(() -> backend.write(new float[4], 0, 1, buffer, -1));
      assertRefused(() -> backend.write(new float[4], 0, 1, buffer, Long.MAX_VALUE));
      assertRefused(() -> backend.read(buffer, LogitsType.F32, 4, 2, new float[4], 0));
      assertRefused(() -> backend.read(buffer, LogitsType.BF16, 9, 2, new float[4], 0));
      for (LogitsType type : LogitsType.values()) {
        assertThatThrownBy(() -> backend.read(buffer, type, 0, 2, new float[3], 2))
            .isInstanceOf(IndexOutOfBoundsException.class);
      }
      assertThatThrownBy(() -> backend.write(new float[3], 2, 2, buffer, 0))
          .isInstanceOf(IndexOutOfBoundsException.class);
    }
  }

  @Test
  void copyTakesBytesFromAnyElementOn() {
    try (DeviceBuffer from = halves((short) 1, (short) 2, (short) 3, (short) 4, (short) 5);
        DeviceBuffer to = halves(new short[8])) {
      // Elements 1 to 3 to places 3 to 5.
      backend.copy(from.slice(2, 8), to.slice(6, 10), 6);
      int[] bits = new int[4];
      float[] pairs = read(to);
      Arrays.setAll(bits, i -> Float.floatToRawIntBits(pairs[i]));
      assertThat(bits).containsExactly(0, 2 << 16, 3 | 4 << 16, 0);
      assertRefused(() -> backend.copy(from, to, 13));
      assertRefused(() -> backend.copy(from, to.slice(12, 4), 5));
      assertRefused(() -> backend.copy(from, to, -1));
      assertRefused(() -> backend.copy(from, to, Long.MAX_VALUE));
    }
  }

  @Test
  void downloadCopiesToTheHostAtAnyElement() {
    int count = 50_001;
    float[] values = TestTensors.random(DType.F32, count, 1, new Random(1));
    try (DeviceBuffer from = buffer(values);
        HostBuffer to = backend.hostMemory().allocate(4L * count + 12, "a test")) {
      float[] host = new float[count + 3];
      Arrays.fill(host, POISON);
      to.write(0, host, 0, count + 3);
      backend.download(from.slice(4, 4L * (count - 1)), count - 1, to, 2);
      to.read(0, host, 0, count + 3);
      for (int i = 0; i < count + 3; i++) {
        float expected = i < 2 || i > count ? POISON : values[i - 1];
        if (host[i] != expected) {
          throw new AssertionError("element " + i + " is " + host[i] + ", not " + expected);
        }
      }
      assertThatThrownBy(() -> backend.download(from, count, to, 4))
          .isInstanceOf(IndexOutOfBoundsException.class);
      assertRefused(() -> backend.download(from, count + 1, to, 0));
      assertRefused(() -> backend.download(from, -1, to, 0));
    }
  }

  /**
   * A copy may go on beside what comes next: overwriting its source, closing it, and looking at
   * what was copied, from other threads too, find it as it was.
   */
  @Test
  void downloadsHoldWhateverBecomesOfTheirSource() throws InterruptedException {
    int count = 1 << 20;
    int rounds = 8;
    try (HostBuffer to = backend.hostMemory().allocate(4L * count * rounds, "a test")) {
      DeviceBuffer from = backend.memory().allocate(4L * count, "a test");
      DeviceBuffer next = backend.memory().allocate(4L * count, "a test");
      for (int round = 0; round < rounds; round++) {
        float[] values = new float[count];
        Arrays.fill(values, round + 1);
        backend.write(values, 0, count, next, 0);
        if (round % 2 == 0) {
          backend.copy(next, from, 4L * count);
        } else {
          backend.toFloat32(next, LogitsType.F32, count, from);
        }
        backend.download(from, count, to, (long) round * count);
      }
      from.close();
      DeviceBuffer other = backend.memory().allocate(4L * count, "a test");
      next.close();
      float[] seen = new float[rounds];
      Thread reader =
          new Thread(
              () -> {
                for (int round = 0; round < rounds; round++) {
                  to.read((round + 1L) * count - 1, seen, round, 1);
                }
              });
      reader.start();
      reader.join();
      other.close();
      for (int round = 0; round < rounds; round++) {
        float[] copied = new float[count];
        to.read((long) round * count, copied, 0, count);
        assertThat(copied).as("round %d", round).containsOnly(round + 1f);
        assertThat(seen[round]).isEqualTo(round + 1f);
      }
      // Closing waits for the copy, too.
      HostBuffer unread = backend.hostMemory().allocate(4L * count, "a test");
      try (DeviceBuffer last = backend.memory().allocate(4L * count, "a test")) {
        backend.download(last, count, unread, 0);
        unread.close();
      }
    }
  }

  /** Every number of a 16-bit type there is, from an odd element on. */
  @ParameterizedTest
  @EnumSource(names = {"F16", "BF16"})
  void halvesBecomeTheSameNumbersInFloat32(LogitsType type) {
    int count = 1 << 16;
    short[] bits = new short[count + 1];
    for (int i = 0; i < count; i++) {
      bits[i + 1] = (short) i;
    }
    try (DeviceBuffer from = halves(bits);
        DeviceBuffer to = buffer(new float[count + 2])) {
      backend.write(new float[] {POISON}, 0, 1, to, count + 1);
      backend.toFloat32(from.slice(2, 2L * count), type, count, to.slice(4, 4L * count));
      float[] converted = read(to);
      float[] direct = new float[count];
      backend.read(from, type, 1, count, direct, 0);
      for (int i = 0; i < count; i++) {
        float expected = number(type, (short) i);
        assertSame(converted[i + 1], expected, i);
        assertSame(direct[i], expected, i);
      }
      assertThat(converted[0]).isZero();
      assertThat(converted[count + 1]).isEqualTo(POISON);
    }
  }

  private static float number(LogitsType type, short bits) {
    return type == LogitsType.BF16 ? Float.intBitsToFloat(bits << 16) : TestTensors.fromHalf(bits);
  }

  /** Equal with the sign of zero, or both not a number. */
  private static void assertSame(float actual, float expected, int bits) {
    if (Float.compare(actual, expected) != 0) {
      throw new AssertionError("bits " + bits + " are " + actual + ", not " + expected);
    }
  }

  @Test
  void conversionChecksSizesAndCopiesFloat32() {
    try (DeviceBuffer from = buffer(1, 2, 3);
        DeviceBuffer to = buffer(0, 0, 0, 0)) {
      backend.toFloat32(from, LogitsType.F32, 2, to);
      assertThat(read(to)).containsExactly(1, 2, 0, 0);
      backend.toFloat32(from, LogitsType.F16, 0, to);
      assertRefused(() -> backend.toFloat32(from, LogitsType.F32, 4, to));
      assertRefused(() -> backend.toFloat32(from, LogitsType.F16, 7, to));
      assertRefused(() -> backend.toFloat32(from, LogitsType.F16, 5, to));
      assertRefused(() -> backend.toFloat32(from, LogitsType.BF16, -1, to));
      assertRefused(() -> backend.toFloat32(from, LogitsType.F32, Long.MAX_VALUE, to));
      assertThat(read(to)).containsExactly(1, 2, 0, 0);
    }
  }

  @Test
  void shardsOfFloat32AreJoinedByRow() {
    // Rank 0 has columns 0 and 1, rank 1 has 2 and 3, rank 2 has 4 and 5; tens are rows.
    try (DeviceBuffer shards = buffer(0, 1, 10, 11, 2, 3, 12, 13, 4, 5, 14, 15);
        DeviceBuffer out = buffer(new float[14])) {
      backend.joinShards(shards, LogitsType.F32, 3, 2, 2, out.slice(4, 48));
      assertThat(read(out)).containsExactly(0, 0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 0);
      backend.joinShards(shards, LogitsType.F32, 1, 4, 3, out);
      assertThat(read(out)).startsWith(0, 1, 10, 11, 2, 3, 12, 13, 4, 5, 14, 15);
      backend.joinShards(shards, LogitsType.F32, 3, 0, 2, out);
      assertRefused(() -> backend.joinShards(shards, LogitsType.F32, 3, 2, 3, out));
      assertRefused(() -> backend.joinShards(shards, LogitsType.F32, 3, 2, 2, out.slice(0, 44)));
      assertRefused(() -> backend.joinShards(shards, LogitsType.F32, 0, 2, 2, out));
      assertRefused(() -> backend.joinShards(shards, LogitsType.F32, 3, -1, 2, out));
      int most = Integer.MAX_VALUE;
      assertRefused(() -> backend.joinShards(shards, LogitsType.F32, most, most, most, out));
      assertRefused(() -> backend.joinShards(shards, LogitsType.F32, 1, most, 1 << 28, out));
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"F16", "BF16"})
  void shardsOfHalvesAreJoinedByRow(LogitsType type) {
    short[] bits = new short[] {1, 2, 3, 11, 12, 13, 4, 5, 6, 14, 15, 16};
    try (DeviceBuffer shards = halves(bits);
        DeviceBuffer out = halves(new short[12])) {
      backend.joinShards(shards, type, 2, 2, 3, out);
      float[] values = new float[12];
      backend.read(out, type, 0, 12, values, 0);
      int[] order = {1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16};
      for (int i = 0; i < 12; i++) {
        assertSame(values[i], number(type, (short) order[i]), i);
      }
    }
  }

  @Test
  void anyThreadMayReadWhileTheOwnerComputes() throws Exception {
    int count = 40_000;
    float[] values = TestTensors.random(DType.BF16, count, 1, new Random(2));
    ExecutorService readers = Executors.newFixedThreadPool(3);
    try (DeviceBuffer buffer = buffer(values);
        DeviceBuffer other = buffer(values)) {
      Callable<Boolean> reading =
          () -> {
            boolean equal = true;
            for (int i = 0; i < 50; i++) {
              float[] to = new float[count];
              backend.read(buffer, LogitsType.F32, 0, count, to, 0);
              // The upper half of a float32 that has bfloat16's precision is that number.
              float[] upper = new float[2 * count];
              backend.read(buffer, LogitsType.BF16, 0, 2 * count, upper, 0);
              equal &= Arrays.equals(to, values);
              equal &= upper[2 * count - 1] == values[count - 1] && upper[1] == values[0];
            }
            return equal;
          };
      List<Future<Boolean>> results =
          List.of(readers.submit(reading), readers.submit(reading), readers.submit(reading));
      for (int i = 0; i < 50; i++) {
        backend.toFloat32(buffer.slice(0, 2L * count), LogitsType.BF16, count, other);
      }
      for (Future<Boolean> result : results) {
        assertThat(result.get()).isTrue();
      }
    } finally {
      readers.shutdownNow();
    }
  }
}
