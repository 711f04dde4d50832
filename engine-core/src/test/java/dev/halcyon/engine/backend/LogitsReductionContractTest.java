package dev.halcyon.engine.backend;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.DTypeChoice;
import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.logits.FullLogits;
import dev.halcyon.engine.logits.LogitsReduction;
import dev.halcyon.engine.logits.LogitsType;
import dev.halcyon.engine.logits.PromptLogprobs;
import java.util.Arrays;
import java.util.Random;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What every backend's reduction of logits to logprobs must give, against the same in double
 * precision. A backend's test extends this.
 */
public abstract class LogitsReductionContractTest {

  private Backend backend;

  /** Opens the backend under test. */
  protected abstract Backend open(BackendOptions options);

  @BeforeEach
  void openBackend() {
    backend = open(new BackendOptions(2, 64L << 20, 1L << 20, 0));
  }

  @AfterEach
  void closeBackend() {
    assertThat(backend.memory().used()).as("leaked device memory").isZero();
    backend.close();
  }

  private DeviceBuffer buffer(float[] values) {
    DeviceBuffer buffer = backend.memory().allocate(4L * values.length, "a test");
    backend.write(values, 0, values.length, buffer, 0);
    return buffer;
  }

  /** Reduces float32 rows, and waits. */
  private void reduce(DeviceBuffer logits, int rows, int cols, PromptLogprobs out, int firstEntry) {
    backend.reduce(logits, LogitsType.F32, rows, cols, out, firstEntry);
    backend.awaitReductions();
  }

  /** Requires every entry of a prompt whose rows were reduced from {@code values}. */
  private static void assertEntries(
      PromptLogprobs actual, int firstEntry, int rows, int cols, float[] values) {
    for (int row = 0; row < rows; row++) {
      float[] logits = Arrays.copyOfRange(values, row * cols, (row + 1) * cols);
      new LogprobReference(logits).requireEntry(actual, firstEntry + row);
    }
  }

  private static int[] prompt(int length, int vocabSize) {
    return new Random(length).ints(length, 0, vocabSize).toArray();
  }

  /** Logits in steps of a half: many ties, between 0 and -0 too; some rows have gaps. */
  private static float[] logits(int rows, int cols, int seed) {
    Random random = new Random(seed);
    float[] values = new float[rows * cols];
    for (int i = 0; i < values.length; i++) {
      values[i] = (float) Math.rint(4 * random.nextGaussian()) / 2;
      if (i / cols % 3 == 1 && random.nextInt(4) == 0) {
        values[i] = Float.NEGATIVE_INFINITY;
      }
    }
    return values;
  }

  /** Rows, columns, the top, whether ranks are wanted. */
  @ParameterizedTest
  @CsvSource({
    "1, 1, 1, true",
    "5, 2, 2, true",
    "7, 37, 0, true",
    "7, 255, 3, true",
    "3, 256, 256, true",
    "4, 257, 20, false",
    "33, 1003, 5, true",
    "2, 9000, 9000, true",
    "2, 9000, 4097, true",
    "3, 33000, 1, false",
    "5, 31, 31, true",
    "3, 33, 12, true",
    "2, 8192, 128, true",
    "3, 8193, 129, true",
    "2, 50257, 20, true"
  })
  void reduceGivesLogprobsRanksAndTheMostLikely(int rows, int cols, int topK, boolean ranked) {
    float[] values = logits(rows, cols, cols);
    PromptLogprobs out = new PromptLogprobs(prompt(rows + 5, cols), topK, ranked);
    try (DeviceBuffer logits = buffer(values)) {
      reduce(logits, rows, cols, out, 3);
      assertEntries(out, 3, rows, cols, values);
      float[] after = new float[values.length];
      backend.read(logits, LogitsType.F32, 0, after.length, after, 0);
      assertThat(after).as("the logits stay as they are").isEqualTo(values);
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = LogitsType.class,
      names = {"F16", "BF16"})
  void rowsOf16BitsAreReducedAsTheyLie(LogitsType type) {
    int rows = 3;
    DType dtype = DType.valueOf(type.name());
    BackendOptions options = new BackendOptions(2, 64L << 20, 1L << 20, 0, DTypeChoice.AUTO, dtype);
    for (int cols : new int[] {2, 302, 9000, 70_002}) {
      float[] values = new float[rows * cols];
      Random random = new Random(cols);
      for (int i = 0; i < values.length; i++) {
        values[i] = (float) Math.rint(4 * random.nextGaussian()) / 2;
      }
      try (Backend narrow = open(options);
          DeviceBuffer logits = narrow.memory().allocate(2L * values.length, "a test")) {
        narrow.write(pairs(values, type), 0, values.length / 2, logits, 0);
        PromptLogprobs out = new PromptLogprobs(prompt(rows + 1, cols), 2, true);
        narrow.reduce(logits, type, rows, cols, out, 0);
        narrow.awaitReductions();
        assertEntries(out, 0, rows, cols, values);
      }
    }
  }

  /** Two elements of 16 bits in the place of each float32: they are no NaNs together. */
  private static float[] pairs(float[] values, LogitsType type) {
    float[] pairs = new float[values.length / 2];
    for (int i = 0; i < pairs.length; i++) {
      int low = half(values[2 * i], type);
      pairs[i] = Float.intBitsToFloat(low | half(values[2 * i + 1], type) << 16);
    }
    return pairs;
  }

  /** Exact for small multiples of a half, none of which is subnormal. */
  private static int half(float value, LogitsType type) {
    int bits = Float.floatToRawIntBits(value);
    if (type == LogitsType.BF16) {
      return bits >>> 16;
    }
    // A half's exponent is biased by 15, a float's by 127.
    int magnitude = Float.floatToRawIntBits(Math.abs(value) * 0x1p-112f) >>> 13;
    return magnitude | bits >>> 16 & 0x8000;
  }

  @Test
  void reductionsMayBeAwaitedTogetherAndTheirRowsOverwritten() {
    int cols = 5000;
    int calls = 40;
    float[] values = logits(3 * calls, cols, 11);
    PromptLogprobs out = new PromptLogprobs(prompt(3 * calls + 1, cols), 150, true);
    PromptLogprobs other = new PromptLogprobs(prompt(2, cols), 0, false);
    try (DeviceBuffer rows = backend.memory().allocate(12L * cols, "a test")) {
      for (int call = 0; call < calls; call++) {
        backend.write(values, 3 * call * cols, 3 * cols, rows, 0);
        backend.reduce(rows, LogitsType.F32, 3, cols, out, 3 * call);
        if (call == 7) {
          backend.reduce(rows, LogitsType.F32, 1, cols, other, 0);
        }
      }
    }
    backend.awaitReductions();
    assertEntries(out, 0, 3 * calls, cols, values);
    assertEntries(other, 0, 1, cols, Arrays.copyOfRange(values, 21 * cols, 22 * cols));
    backend.awaitReductions();
  }

  @Test
  void equalLogitsAreRankedByTheirIds() {
    float[] values = {1, 3, 3, 0, 3, -0f, 0};
    // Entry i scores prompt[i + 1]: token 4, then 6, each on a row of these logits.
    PromptLogprobs out = new PromptLogprobs(new int[] {0, 4, 6, 0}, 7, true);
    float[] twice = Arrays.copyOf(values, 14);
    System.arraycopy(values, 0, twice, 7, 7);
    try (DeviceBuffer logits = buffer(twice)) {
      reduce(logits, 2, 7, out, 0);
    }
    assertThat(out.rank(0)).isEqualTo(3);
    assertThat(out.rank(1)).isEqualTo(7);
    int[] order = new int[7];
    Arrays.setAll(order, i -> out.topId(0, i));
    assertThat(order).containsExactly(1, 2, 4, 0, 3, 5, 6);
    // 3 e^3 + e^1 + 3 e^0 = 65.97489..., and 3 - ln of it = -1.189273...
    assertThat(out.logprob(0)).isEqualTo((float) (3 - Math.log(3 * Math.exp(3) + Math.exp(1) + 3)));
  }

  /** Where the most likely lie plays no part: all equal, all at the end, all at the beginning. */
  @ParameterizedTest
  @ValueSource(ints = {1, 20, 128, 500})
  void listsHoldWhateverTheOrderOfLogits(int topK) {
    int cols = 70_001;
    float[] values = new float[4 * cols];
    for (int i = 0; i < cols; i++) {
      values[i] = 2.5f;
      values[cols + i] = i / 16 * 0x1p-9f;
      values[2 * cols + i] = -i * 0x1p-9f;
      values[3 * cols + i] = i % 2 == 0 ? Float.NEGATIVE_INFINITY : -(i % 97);
    }
    PromptLogprobs out = new PromptLogprobs(prompt(5, cols), topK, true);
    try (DeviceBuffer logits = buffer(values)) {
      reduce(logits, 4, cols, out, 0);
    }
    assertEntries(out, 0, 4, cols, values);
  }

  @Test
  void rowsOfLargeVocabulariesAreAsExactAsSmallOnes() {
    int cols = 262_144;
    float[] values = new float[4 * cols];
    Random random = new Random(6);
    for (int i = 0; i < cols; i++) {
      values[i] = (float) random.nextGaussian();
      // Equal addends round the same way each time: a sum in float32 would drift.
      values[cols + i] = 0.1f;
      values[2 * cols + i] = i == 5 ? 9 : -1.7f;
      values[3 * cols + i] = i % 2 == 0 ? 1e4f : 1e4f - 3;
    }
    PromptLogprobs out = new PromptLogprobs(new int[] {0, 77, 8, 5, 262_143, 1}, 2, true);
    try (DeviceBuffer logits = buffer(values)) {
      reduce(logits, 4, cols, out, 0);
    }
    assertEntries(out, 0, 4, cols, values);
    // 262144 equal logits: 1 / 2^18 each.
    assertThat(out.logprob(1)).isEqualTo((float) (-18 * Math.log(2)));
  }

  @Test
  void reduceTakesSoftcappedRowsAndParts() {
    int cols = 301;
    float[] values = new float[3 * cols];
    Random random = new Random(7);
    for (int i = 0; i < values.length; i++) {
      values[i] = (float) (60 * random.nextGaussian());
    }
    try (DeviceBuffer all = buffer(values);
        DeviceBuffer rows = all.slice(4L * cols, 8L * cols)) {
      float[] capped = new float[2 * cols];
      for (int i = 0; i < capped.length; i++) {
        capped[i] = (float) (30 * Math.tanh(values[cols + i] / 30.0));
      }
      backend.write(capped, 0, capped.length, rows, 0);
      PromptLogprobs out = new PromptLogprobs(prompt(3, cols), 4, true);
      reduce(rows, 2, cols, out, 0);
      assertEntries(out, 0, 2, cols, capped);
    }
  }

  @Test
  void theLastRowScoresTheFirstGeneratedToken() {
    int rows = 6;
    int cols = 700;
    float[] values = logits(rows, cols, 8);
    for (int token : new int[] {0, 350, 699}) {
      PromptLogprobs out = new PromptLogprobs(prompt(rows, cols), 3, true);
      assertThat(out.target(rows - 1)).isEqualTo(PromptLogprobs.UNKNOWN);
      try (FullLogits full = FullLogits.prepare(backend, rows, cols, "a test", e -> {})) {
        assertThat(full.onDevice()).isTrue();
        backend.write(values, 0, values.length, full.onDevice(0, rows), 0);
        new LogitsReduction(backend).reduce(full, out);
      }
      assertEntries(out, 0, rows, cols, values);
      out.scoreFirstToken(token);
      assertThat(out.target(rows - 1)).isEqualTo(token);
      assertEntries(out, 0, rows, cols, values);
    }
  }

  @Test
  void reduceRefusesWhatCantBe() {
    PromptLogprobs out = new PromptLogprobs(new int[] {0, 1, 2, 9}, 1, false);
    try (DeviceBuffer logits = buffer(new float[12])) {
      assertRefused(() -> reduce(logits, 3, 5, out, 0));
      assertRefused(() -> reduce(logits, -1, 4, out, 0));
      assertRefused(() -> reduce(logits, 1, 0, out, 0));
      assertRefused(() -> reduce(logits, 3, 4, out, 2));
      assertRefused(() -> reduce(logits, 1, 4, out, -1));
      // Entry 2 scores token 9, entry 3 none yet.
      assertRefused(() -> reduce(logits, 1, 4, out, 2));
      reduce(logits, 1, 4, out, 3);
      assertRefused(() -> reduce(logits, 1, 4, new PromptLogprobs(new int[] {0}, 5, false), 0));
      reduce(logits, 0, 4, out, 4);
    }
  }

  private static void assertRefused(ThrowingCallable call) {
    assertThatThrownBy(call).isInstanceOf(IllegalArgumentException.class);
  }
}
