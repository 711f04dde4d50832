package dev.halcyon.engine.backend;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.LogitsProcessor;
import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.logits.DeviceMemory;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import dev.halcyon.engine.sampling.SampledToken;
import dev.halcyon.engine.sampling.SamplingRow;
import dev.halcyon.engine.sampling.SamplingSettings;
import dev.halcyon.engine.sampling.TokenHistory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * What every backend must do, against the same in double precision. A backend's test extends this.
 */
public abstract class BackendContractTest {

  private static final long BUDGET = 256L << 20;
  private static final long HOST_BUDGET = 64L << 20;

  private BackendHarness harness;
  private Backend backend;

  /** Opens the backend under test. */
  protected abstract Backend open(BackendOptions options);

  /** The relative error that the activations' type allows. */
  protected abstract double tolerance();

  @BeforeEach
  void openBackend() {
    backend = open(new BackendOptions(2, BUDGET, HOST_BUDGET, 0));
    harness = new BackendHarness(backend);
  }

  @AfterEach
  void closeBackend() {
    assertThat(backend.memory().used()).as("leaked device memory").isZero();
    backend.close();
  }

  /** Says what failed only when it does: this is called for very many elements. */
  private void assertClose(
      double actual, double expected, double magnitude, String what, int index) {
    double allowed = tolerance() * magnitude + 1e-30;
    if (!(Math.abs(actual - expected) <= allowed)) {
      throw new AssertionError(
          what + " " + index + " is " + actual + ", not " + expected + " within " + allowed);
    }
  }

  @ParameterizedTest
  @EnumSource
  void embedGivesTheTablesRowsScaled(DType type) {
    int cols = 37;
    float[] table = TestTensors.random(type, 11 * cols, 1, new Random(1));
    int[] ids = {10, 0, 3, 3, 7};
    try (Matrix matrix = backend.load(List.of(TestTensors.tensor(type, 11, cols, table, 4)));
        DeviceBuffer out = harness.poisoned(6, cols)) {
      backend.embed(matrix, backend.upload(BackendHarness.tokens(ids)), 1.5f, out);
      float[] y = harness.read(out, 6 * cols);
      for (int i = 0; i < 5 * cols; i++) {
        double expected = 1.5 * table[ids[i / cols] * cols + i % cols];
        assertClose(y[i], expected, Math.abs(expected), "element", i);
      }
      assertThat(y[5 * cols]).isEqualTo(BackendHarness.POISON);
    }
  }

  @Test
  void embedRefusesUnknownTokens() {
    try (Matrix table = backend.load(List.of(TestTensors.tensor(DType.F32, 2, 1, new float[2])));
        DeviceBuffer out = harness.poisoned(1, 1)) {
      for (int id : new int[] {-1, 2}) {
        DeviceBatch batch = backend.upload(BackendHarness.tokens(id));
        assertThatThrownBy(() -> backend.embed(table, batch, 1f, out))
            .isInstanceOf(IllegalArgumentException.class)
            .hasMessageContaining("oken");
      }
    }
  }

  @ParameterizedTest
  @CsvSource({
    "1, 1, 2",
    "1, 7, 3",
    "1, 64, 5",
    "2, 33, 9",
    "3, 96, 17",
    "4, 130, 8",
    "5, 101, 70",
    "9, 257, 31",
    "16, 64, 64",
    "33, 45, 6",
    "40, 301, 350",
    "64, 256, 300"
  })
  void linearMatches(int rows, int in, int out) {
    Random random = new Random(rows * 31 + in);
    for (DType type : DType.values()) {
      for (boolean biased : new boolean[] {false, true}) {
        linearMatches(type, rows, in, out, biased, random);
      }
    }
  }

  private void linearMatches(DType type, int rows, int in, int out, boolean biased, Random random) {
    float[] x = harness.random(rows * in, 1, random);
    float[] w = TestTensors.random(type, out * in, 0.5, random);
    float[] b = TestTensors.random(DType.F32, out, 1, random);
    int first = out / 2;
    List<HostTensor> parts = new ArrayList<>();
    float[] head = java.util.Arrays.copyOf(w, first * in);
    float[] rest = java.util.Arrays.copyOfRange(w, first * in, out * in);
    if (first > 1) {
      parts.add(TestTensors.tensor(type, first, in, head, first));
      parts.add(TestTensors.tensor(type, out - first, in, rest, (out - first + 1) / 2));
    } else {
      parts.add(TestTensors.tensor(type, out, in, w));
    }
    try (Matrix weight = backend.load(parts);
        Matrix bias = harness.vector(b);
        DeviceBuffer from = harness.filled(rows, in, x);
        DeviceBuffer to = harness.poisoned(rows + 1, out)) {
      assertThat(weight.rows()).isEqualTo(out);
      assertThat(weight.cols()).isEqualTo(in);
      backend.linear(from, rows, weight, biased ? bias : null, to);
      float[] y = harness.read(to, (rows + 1) * out);
      for (int r = 0; r < rows; r++) {
        for (int o = 0; o < out; o++) {
          double sum = biased ? b[o] : 0;
          double magnitude = Math.abs(sum);
          for (int i = 0; i < in; i++) {
            double product = (double) x[r * in + i] * w[o * in + i];
            sum += product;
            magnitude += Math.abs(product);
          }
          assertClose(y[r * out + o], sum, magnitude, "output", r * out + o);
        }
      }
      for (int i = rows * out; i < y.length; i++) {
        assertThat(y[i]).isEqualTo(BackendHarness.POISON);
      }
    }
  }

  @Test
  void vectorsAreJoinedToALongerOne() {
    HostTensor a = TestTensors.tensor(DType.BF16, 1, 2, new float[] {1, -2});
    HostTensor b = TestTensors.tensor(DType.F32, 1, 1, new float[] {3});
    float[] zeros = new float[3];
    try (Matrix bias = backend.load(List.of(a, b));
        Matrix weight = backend.load(List.of(TestTensors.tensor(DType.F32, 3, 1, zeros)));
        DeviceBuffer x = harness.filled(1, 1, new float[] {1});
        DeviceBuffer out = harness.poisoned(1, 3)) {
      assertThat(bias.rows()).isEqualTo(1);
      assertThat(bias.cols()).isEqualTo(3);
      backend.linear(x, 1, weight, bias, out);
      assertThat(harness.read(out, 3)).containsExactly(1, -2, 3);
    }
  }

  @ParameterizedTest
  @CsvSource({"1, 5, 0", "3, 64, 1", "20, 130, 0"})
  void rmsNormMatchesAlsoInPlace(int rows, int cols, float offset) {
    Random random = new Random(cols);
    float[] x = harness.random(rows * cols, 2, random);
    float[] w = TestTensors.random(DType.F32, cols, 1, random);
    try (Matrix weight = harness.vector(w);
        DeviceBuffer from = harness.filled(rows, cols, x);
        DeviceBuffer to = harness.poisoned(rows + 1, cols)) {
      backend.rmsNorm(from, weight, offset, 1e-5f, rows, to);
      assertNorms(harness.read(to, rows * cols), x, rows, w, offset);
      assertThat(harness.read(to, rows * cols + 1)[rows * cols]).isEqualTo(BackendHarness.POISON);
      backend.rmsNorm(from, weight, offset, 1e-5f, rows, from);
      assertNorms(harness.read(from, rows * cols), x, rows, w, offset);
    }
  }

  private void assertNorms(float[] y, float[] x, int rows, float[] w, float offset) {
    for (int r = 0; r < rows; r++) {
      double[] expected = DoubleReference.rmsNorm(x, r * w.length, w, offset, 1e-5f);
      for (int i = 0; i < w.length; i++) {
        double scale = Math.abs(expected[i]) * (1 + 2 * offset / Math.abs(w[i] + offset));
        assertClose(y[r * w.length + i], expected[i], scale, "element", r * w.length + i);
      }
    }
  }

  @Test
  void addRmsNormAddsToTheResidualFirst() {
    int rows = 3;
    int cols = 70;
    Random random = new Random(2);
    float[] r = harness.random(rows * cols, 1, random);
    float[] d = harness.random(rows * cols, 1, random);
    float[] w = TestTensors.random(DType.F32, cols, 1, random);
    float[] sum = new float[rows * cols];
    for (int i = 0; i < sum.length; i++) {
      sum[i] = r[i] + d[i];
    }
    try (Matrix weight = harness.vector(w);
        DeviceBuffer residual = harness.filled(rows, cols, r);
        DeviceBuffer delta = harness.filled(rows, cols, d);
        DeviceBuffer to = harness.poisoned(rows, cols)) {
      backend.addRmsNorm(residual, delta, weight, 0, 1e-5f, rows, to);
      float[] added = harness.read(residual, rows * cols);
      for (int i = 0; i < sum.length; i++) {
        assertClose(added[i], sum[i], Math.abs(r[i]) + Math.abs(d[i]), "residual", i);
      }
      assertNorms(harness.read(to, rows * cols), added, rows, w, 0);
    }
  }

  @Test
  void rmsNormHeadsTouchesItsHeadsAlone() {
    int dim = 24;
    int rowCols = 5 * dim;
    Random random = new Random(3);
    float[] x = harness.random(2 * rowCols, 1, random);
    float[] w = TestTensors.random(DType.F32, dim, 1, random);
    try (Matrix weight = harness.vector(w);
        DeviceBuffer buffer = harness.filled(2, rowCols, x)) {
      backend.rmsNormHeads(buffer, rowCols, dim, 3, weight, 0, 1e-6f, 2);
      float[] y = harness.read(buffer, 2 * rowCols);
      for (int i = 0; i < y.length; i++) {
        int head = i % rowCols / dim;
        if (head < 1 || head > 3) {
          assertThat(y[i]).isEqualTo(x[i]);
        } else {
          double e = DoubleReference.rmsNorm(x, i / dim * dim, w, 0, 1e-6f)[i % dim];
          assertClose(y[i], e, Math.abs(e), "element", i);
        }
      }
      assertThatThrownBy(() -> backend.rmsNormHeads(buffer, rowCols, dim, 5, weight, 0, 1e-6f, 2))
          .isInstanceOf(IllegalArgumentException.class);
    }
  }

  @ParameterizedTest
  @CsvSource({"1, 1", "2, 5", "3, 64", "20, 130", "2, 1031"})
  void layerNormMatchesAlsoInPlace(int rows, int cols) {
    Random random = new Random(cols);
    float[] x = harness.random(rows * cols, 2, random);
    for (int i = 0; i < x.length; i++) {
      x[i] += 3;
    }
    harness.rounded(x);
    float[] w = TestTensors.random(DType.F32, cols, 1, random);
    try (Matrix weight = harness.vector(w);
        DeviceBuffer from = harness.filled(rows, cols, x);
        DeviceBuffer to = harness.poisoned(rows + 1, cols)) {
      backend.layerNorm(from, weight, 1e-2f, rows, to);
      assertLayerNorms(harness.read(to, rows * cols), x, rows, w);
      assertThat(harness.read(to, rows * cols + 1)[rows * cols]).isEqualTo(BackendHarness.POISON);
      backend.layerNorm(from, weight, 1e-2f, rows, from);
      assertLayerNorms(harness.read(from, rows * cols), x, rows, w);
    }
  }

  private void assertLayerNorms(float[] y, float[] x, int rows, float[] w) {
    for (int r = 0; r < rows; r++) {
      double[] expected = DoubleReference.layerNorm(x, r * w.length, w, 1e-2f);
      for (int i = 0; i < w.length; i++) {
        // Elements and means of up to 12 are subtracted; the root is 0.1 at least.
        double scale = Math.abs(expected[i]) + 12 / 0.1 * Math.abs(w[i]);
        assertClose(y[r * w.length + i], expected[i], scale, "element", r * w.length + i);
      }
    }
  }

  @Test
  void addAddsItsRowsAlone() {
    try (DeviceBuffer residual = harness.filled(3, 2, new float[] {1, 2, 3, 4, 5, 6});
        DeviceBuffer delta = harness.filled(3, 2, new float[] {10, 20, 30, 40, 50, 60})) {
      backend.add(residual, delta, 2, 2);
      assertThat(harness.read(residual, 6)).containsExactly(11, 22, 33, 44, 5, 6);
      assertThat(harness.read(delta, 6)).containsExactly(10, 20, 30, 40, 50, 60);
      assertThatThrownBy(() -> backend.add(residual, delta, 4, 2))
          .isInstanceOf(IllegalArgumentException.class);
    }
  }

  /** Heads, head size, rotary size and layout, window, cap, block size, then a step's chunk. */
  @ParameterizedTest
  @CsvSource({
    "1, 1, 8, 8, HALVES, 0, 0, 1, 1000",
    "4, 2, 16, 16, HALVES, 0, 0, 2, 3",
    "8, 1, 64, 64, HALVES, 0, 0, 4, 1",
    "6, 2, 20, 12, HALVES, 0, 0, 8, 7",
    "6, 2, 20, 12, INTERLEAVED, 0, 0, 8, 7",
    "4, 4, 32, 0, HALVES, 0, 0, 16, 16",
    "8, 2, 64, 64, HALVES, 0, 0, 16, 33",
    "8, 2, 64, 64, INTERLEAVED, 0, 0, 16, 33",
    "4, 2, 80, 40, HALVES, 0, 0, 32, 1000",
    "4, 1, 24, 24, HALVES, 5, 0, 4, 9",
    "4, 1, 24, 24, INTERLEAVED, 5, 0, 4, 9",
    "4, 2, 32, 32, HALVES, 64, 0, 16, 50",
    "2, 1, 32, 32, HALVES, 16, 0, 8, 1",
    "4, 2, 16, 16, HALVES, 0, 2.5, 16, 40",
    "3, 1, 16, 16, HALVES, 7, 1.5, 128, 21",
    "40, 1, 8, 8, HALVES, 0, 0, 32, 5"
  })
  void attentionMatches(
      int queryHeads,
      int kvHeads,
      int dim,
      int rotaryDim,
      RopeLayout layout,
      int window,
      float softcap,
      int blockSize,
      int chunk) {
    AttentionSpec spec =
        new AttentionSpec(queryHeads, kvHeads, dim, (float) (1 / Math.sqrt(dim)), window, softcap);
    int border = Math.max(4, blockSize);
    int[] lengths = {1, border - 1, border, border + 1, 2 * border, 63, 65, 150};
    AttentionScenario scenario =
        new AttentionScenario(harness, spec, rotaryDim, layout, blockSize, lengths, dim);
    float[][] actual = scenario.run(chunk);
    double[][] expected = scenario.reference();
    for (int s = 0; s < lengths.length; s++) {
      for (int i = 0; i < expected[s].length; i++) {
        // Outputs are averages of values of size 1, scores rotated by angles of float32.
        assertClose(actual[s][i], expected[s][i], 30, "element", i);
      }
    }
  }

  /**
   * Heads, head size, window, cap, block size, then a step's chunk: longer ones, ragged at ends.
   */
  @ParameterizedTest
  @CsvSource({
    "4, 1, 64, 0, 0, 16, 1000",
    "8, 2, 128, 0, 0, 16, 100",
    "6, 3, 80, 33, 0, 32, 64",
    "7, 1, 96, 0, 0, 1, 128",
    "2, 1, 256, 100, 30, 256, 65",
    "4, 2, 112, 65, 0, 8, 200",
    "5, 5, 72, 1, 0, 64, 90",
    "3, 1, 192, 0, 5, 4, 150",
    "2, 1, 250, 0, 0, 8, 127",
    "40, 1, 16, 129, 0, 128, 63"
  })
  void attentionOfChunksOfPromptsMatches(
      int queryHeads, int kvHeads, int dim, int window, float softcap, int blockSize, int chunk) {
    AttentionSpec spec =
        new AttentionSpec(queryHeads, kvHeads, dim, (float) (1 / Math.sqrt(dim)), window, softcap);
    // Whatever the chunk, some step has one row of a sequence beside many of another.
    int[] lengths = {1, 2, chunk % 150 + 1, 64, 129, 200};
    assertAttends(
        new AttentionScenario(harness, spec, 0, RopeLayout.HALVES, blockSize, lengths, dim), chunk);
  }

  /** Few rows that see many positions, which a device may share out among more than one block. */
  @ParameterizedTest
  @CsvSource({"4, 2, 64, 0, 16", "3, 1, 128, 700, 32"})
  void attentionOfShortChunksBehindLongContextsMatches(
      int queryHeads, int kvHeads, int dim, int window, int blockSize) {
    AttentionSpec spec =
        new AttentionSpec(queryHeads, kvHeads, dim, (float) (1 / Math.sqrt(dim)), window, 0);
    int[] lengths = {1040, 600};
    assertAttends(
        new AttentionScenario(harness, spec, 0, RopeLayout.HALVES, blockSize, lengths, dim),
        1000,
        25);
  }

  /** Heads, head size, window, cap, block size; contexts end around tiles, splits and pages. */
  @ParameterizedTest
  @CsvSource({
    "4, 1, 64, 0, 0, 16",
    "8, 2, 128, 0, 0, 32",
    "7, 1, 80, 0, 0, 256",
    "8, 1, 96, 100, 0, 1",
    "3, 3, 112, 0, 2.5, 64",
    "2, 1, 192, 300, 30, 8",
    "16, 1, 256, 0, 0, 128",
    "20, 1, 64, 0, 0, 4",
    "6, 2, 72, 0, 0, 16",
    "4, 2, 250, 257, 0, 2",
    "12, 1, 16, 0, 0, 16"
  })
  void attentionOfSingleRowsMatches(
      int queryHeads, int kvHeads, int dim, int window, float softcap, int blockSize) {
    AttentionSpec spec =
        new AttentionSpec(queryHeads, kvHeads, dim, (float) (1 / Math.sqrt(dim)), window, softcap);
    int singles = 3;
    int[] lengths = {3, 17, 65, 257, 513, 700};
    AttentionScenario scenario =
        new AttentionScenario(harness, spec, 0, RopeLayout.HALVES, blockSize, lengths, dim);
    assertLast(singles, scenario.runSingly(singles), scenario.reference(singles), spec);
  }

  /** Contexts past which the parts that one is split into become longer. */
  @ParameterizedTest
  @CsvSource({"4, 1, 64, 16", "2, 1, 128, 32"})
  void attentionOfSingleRowsBehindLongContextsMatches(
      int queryHeads, int kvHeads, int dim, int blockSize) {
    AttentionSpec spec =
        new AttentionSpec(queryHeads, kvHeads, dim, (float) (1 / Math.sqrt(dim)), 0, 0);
    int[] lengths = {4097, 1, 5000};
    AttentionScenario scenario =
        new AttentionScenario(harness, spec, 0, RopeLayout.HALVES, blockSize, lengths, dim);
    assertLast(1, scenario.runSingly(1), scenario.reference(1), spec);
  }

  private void assertLast(int rows, float[][] actual, double[][] expected, AttentionSpec spec) {
    int count = rows * spec.queryHeads() * spec.headDim();
    for (int s = 0; s < expected.length; s++) {
      for (int i = expected[s].length - count; i < expected[s].length; i++) {
        assertClose(actual[s][i], expected[s][i], 16, "element", i);
      }
    }
  }

  /** Whatever else is in the batch, down to the last bit. */
  @ParameterizedTest
  @CsvSource({"8, 2, 128", "4, 1, 64", "3, 1, 40"})
  void attentionOfASingleRowDoesNotDependOnTheBatch(int queryHeads, int kvHeads, int dim) {
    AttentionSpec spec =
        new AttentionSpec(queryHeads, kvHeads, dim, (float) (1 / Math.sqrt(dim)), 0, 0);
    int[][] batches = {{700}, {700, 30, 260, 513}, {700, 1}};
    float[] alone = null;
    for (int[] lengths : batches) {
      float[] last =
          new AttentionScenario(harness, spec, 0, RopeLayout.HALVES, 16, lengths, dim)
              .runSingly(1)[0];
      alone = alone == null ? last : alone;
      int count = queryHeads * dim;
      assertThat(java.util.Arrays.copyOfRange(last, last.length - count, last.length))
          .isEqualTo(java.util.Arrays.copyOfRange(alone, alone.length - count, alone.length));
    }
  }

  private void assertAttends(AttentionScenario scenario, int... chunks) {
    float[][] actual = scenario.run(chunks);
    double[][] expected = scenario.reference();
    for (int s = 0; s < expected.length; s++) {
      for (int i = 0; i < expected[s].length; i++) {
        // As above, but that scores have no error of rotation.
        assertClose(actual[s][i], expected[s][i], 16, "element", i);
      }
    }
  }

  @Test
  void copiedBlocksHoldTheSameKeysAndValues() {
    AttentionSpec spec = new AttentionSpec(2, 1, 8, 0.3f, 0, 0);
    float[] qkv = harness.random(3 * spec.packedCols(), 1, new Random(4));
    try (KvStorage kv = backend.allocateKv(new KvShape(3, 5, 4, 1, 8));
        DeviceBuffer x = harness.filled(3, spec.packedCols(), qkv);
        DeviceBuffer y = harness.poisoned(3, 16);
        DeviceBuffer z = harness.poisoned(3, 16)) {
      for (int layer = 0; layer < 3; layer++) {
        DeviceBatch first = backend.upload(blockBatch(1));
        backend.ropeAndWriteKv(first, x, spec, null, kv, layer);
        backend.attention(first, x, spec, kv, layer, y);
        kv.copyBlock(1, 4);
        backend.attention(backend.upload(blockBatch(4)), x, spec, kv, layer, z);
        assertThat(harness.read(z, 48)).isEqualTo(harness.read(y, 48));
      }
      assertThatThrownBy(() -> kv.copyBlock(0, 5)).isInstanceOf(IllegalArgumentException.class);
    }
  }

  private static Batch blockBatch(int block) {
    return new Batch(
        3,
        new int[3],
        new int[] {0, 1, 2},
        new int[] {4 * block, 4 * block + 1, 4 * block + 2},
        1,
        new int[] {0, 3},
        new int[] {3},
        new int[][] {{block}});
  }

  @Test
  void batchesThatPointOutsideTheCacheAreRefused() {
    AttentionSpec spec = new AttentionSpec(1, 1, 4, 1, 0, 0);
    try (KvStorage kv = backend.allocateKv(new KvShape(1, 2, 4, 1, 4));
        DeviceBuffer x = harness.poisoned(3, 12);
        DeviceBuffer y = harness.poisoned(3, 4)) {
      for (int block : new int[] {-1, 2}) {
        DeviceBatch batch = backend.upload(blockBatch(block));
        assertThatThrownBy(() -> backend.ropeAndWriteKv(batch, x, spec, null, kv, 0))
            .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> backend.attention(batch, x, spec, kv, 0, y))
            .isInstanceOf(IllegalArgumentException.class);
      }
      DeviceBatch good = backend.upload(blockBatch(1));
      assertThatThrownBy(() -> backend.attention(good, x, spec, kv, 1, y))
          .isInstanceOf(IllegalArgumentException.class);
      try (RopeTable rope = harness.rope(2, 4, RopeLayout.HALVES)) {
        assertThatThrownBy(() -> backend.ropeAndWriteKv(good, x, spec, rope, kv, 0))
            .isInstanceOf(IllegalArgumentException.class)
            .hasMessageContaining("osition");
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void gatedActivationMatches(Activation activation) {
    int inner = 203;
    int rows = 3;
    float[] x = harness.random(rows * 2 * inner, 3, new Random(5));
    for (int i = 0; i < 21; i++) {
      x[i] = i * 9 - 90;
    }
    try (DeviceBuffer from = harness.filled(rows, 2 * inner, x);
        DeviceBuffer to = harness.poisoned(rows + 1, inner)) {
      backend.gatedActivation(from, rows, inner, activation, to);
      float[] y = harness.read(to, rows * inner + 1);
      for (int i = 0; i < rows * inner; i++) {
        int at = i / inner * 2 * inner + i % inner;
        double up = x[at + inner];
        double expected = DoubleReference.activation(activation, x[at]) * up;
        // Far down the left tail results are nothing beside the gate that they come from.
        double magnitude = Math.abs(expected) + 1e-3 * Math.abs(x[at] * up);
        assertClose(y[i], expected, magnitude, "gate", at);
      }
      assertThat(y[rows * inner]).isEqualTo(BackendHarness.POISON);
    }
  }

  @Test
  void gatherRowsTakesRowsInOrderAndRepeats() {
    float[] x = {0, 1, 10, 11, 20, 21};
    try (DeviceBuffer from = harness.filled(3, 2, x);
        DeviceBuffer to = harness.poisoned(4, 2)) {
      backend.gatherRows(from, 2, new int[] {2, 0, 2, 99}, 3, to);
      assertThat(harness.read(to, 8))
          .containsExactly(20, 21, 0, 1, 20, 21, BackendHarness.POISON, BackendHarness.POISON);
      assertThatThrownBy(() -> backend.gatherRows(from, 2, new int[] {3}, 1, to))
          .isInstanceOf(IllegalArgumentException.class);
    }
  }

  @Test
  void transformLogitsScalesThenCaps() {
    float[] x = harness.rounded(new float[] {-100, -3, -1e-4f, 0, 1e-4f, 0.5f, 3, 1000});
    try (DeviceBuffer logits = harness.filled(3, 4, java.util.Arrays.copyOf(x, 12))) {
      backend.transformLogits(logits, 2, 4, 0.5f, 30);
      float[] y = harness.read(logits, 8);
      for (int i = 0; i < 8; i++) {
        double expected = 30 * Math.tanh(x[i] * 0.5 / 30);
        assertClose(y[i], expected, Math.abs(expected), "capped", i);
      }
      backend.transformLogits(logits, 2, 4, 2, 0);
      float[] z = harness.read(logits, 8);
      for (int i = 0; i < 8; i++) {
        assertClose(z[i], 2.0 * y[i], Math.abs(2 * y[i]), "scaled", i);
      }
    }
  }

  @Test
  void readTakesARange() {
    try (DeviceBuffer from = harness.filled(2, 3, new float[] {1, 2, 3, 4, 5, 6})) {
      float[] to = new float[4];
      backend.read(from, 2, 3, to, 1);
      assertThat(to).containsExactly(0, 3, 4, 5);
      assertThatThrownBy(() -> backend.read(from, 4, 3, new float[3], 0))
          .isInstanceOf(IllegalArgumentException.class);
    }
  }

  @Test
  void buffersThatAreTooSmallAreRefused() {
    float[] ones = {1, 1, 1, 1};
    try (Matrix weight = backend.load(List.of(TestTensors.tensor(DType.F32, 2, 2, ones)));
        Matrix norm = harness.vector(new float[] {1, 1});
        DeviceBuffer small = harness.filled(1, 2, ones);
        DeviceBuffer large = harness.filled(2, 2, ones)) {
      assertThatThrownBy(() -> backend.linear(small, 2, weight, null, large))
          .isInstanceOf(IllegalArgumentException.class);
      assertThatThrownBy(() -> backend.linear(large, 2, weight, null, small))
          .isInstanceOf(IllegalArgumentException.class);
      assertThatThrownBy(() -> backend.linear(large, -1, weight, null, small))
          .isInstanceOf(IllegalArgumentException.class);
      assertThatThrownBy(() -> backend.rmsNorm(small, norm, 0, 0, 2, large))
          .isInstanceOf(IllegalArgumentException.class);
      assertThatThrownBy(() -> backend.layerNorm(small, norm, 0, 2, large))
          .isInstanceOf(IllegalArgumentException.class);
      assertThatThrownBy(() -> backend.gatedActivation(small, 1, 2, Activation.SILU, large))
          .isInstanceOf(IllegalArgumentException.class);
    }
  }

  @Test
  void memoryIsZeroedCountedExactlyAndFreedOnce() {
    DeviceMemory memory = backend.memory();
    assertThat(memory.capacity()).isEqualTo(BUDGET);
    DeviceBuffer a = memory.allocate(4000, "a");
    DeviceBuffer b = memory.allocate(0, "nothing");
    assertThat(memory.used()).isEqualTo(4000);
    assertThat(a.bytes()).isEqualTo(4000);
    assertThat(harness.read(a, 1000)).containsOnly(0f);
    a.close();
    a.close();
    b.close();
    assertThat(memory.used()).isZero();
    assertThatThrownBy(() -> harness.read(a, 1)).isInstanceOf(IllegalStateException.class);
  }

  @Test
  void runningOutOfMemoryHoldsNothing() {
    DeviceMemory memory = backend.memory();
    try (DeviceBuffer most = memory.allocate(BUDGET - 100, "most of it")) {
      assertThatThrownBy(() -> memory.allocate(101, "a straw"))
          .isInstanceOf(OutOfDeviceMemoryException.class)
          .hasMessageContaining("a straw")
          .hasMessageContaining("100 bytes are left");
      memory.allocate(100, "the rest").close();
      assertThat(memory.used()).isEqualTo(most.bytes());
    }
    // Layers of 64 MiB: the fifth doesn't fit.
    int blocks = 1024 * Float.BYTES / backend.activationType().bytes();
    KvShape shape = new KvShape(5, blocks, 16, 8, 64);
    assertThatThrownBy(() -> backend.allocateKv(shape))
        .isInstanceOf(OutOfDeviceMemoryException.class);
    assertThat(memory.used()).isZero();
  }

  @Test
  void nothingHappensForNoRows() {
    try (Matrix weight = backend.load(List.of(TestTensors.tensor(DType.F32, 2, 1, new float[2])));
        DeviceBuffer x = harness.poisoned(1, 2);
        DeviceBuffer y = harness.poisoned(1, 2)) {
      backend.linear(x, 0, weight, null, y);
      backend.gatedActivation(x, 0, 1, Activation.SILU, y);
      backend.gatherRows(x, 2, new int[0], 0, y);
      backend.synchronize();
      assertThat(harness.read(y, 2)).containsOnly(BackendHarness.POISON);
    }
  }

  @Test
  void sampleReadsRowsByEntryAndAFailureStaysItsOwn() {
    float[] x = {0, 5, 1, 2, 9, 0, 3, 4};
    RuntimeException failure = new IllegalStateException("a caller's mistake");
    LogitsProcessor broken =
        (prompt, generated, logits) -> {
          throw failure;
        };
    try (DeviceBuffer logits = harness.filled(2, 4, x)) {
      List<SampledToken> tokens =
          backend.sample(
              logits, 4, List.of(entry(1, null), entry(0, broken), entry(0, null), entry(1, null)));
      assertThat(tokens.get(0).tokenId()).isZero();
      assertThat(tokens.get(0).logits()).containsExactly(9, 0, 3, 4);
      assertThat(tokens.get(1).error()).isNotNull();
      assertThat(tokens.get(2).tokenId()).isEqualTo(1);
      assertThat(tokens.get(2).error()).isNull();
      assertThat(tokens.get(3).tokenId()).isZero();
      assertThat(harness.read(logits, 8)).isEqualTo(x);
      assertThatThrownBy(() -> backend.sample(logits, 4, List.of(entry(2, null))))
          .isInstanceOf(IllegalArgumentException.class);
    }
  }

  /** A greedy entry that asks for a copy of its logits. */
  private static SamplingRow entry(int row, LogitsProcessor processor) {
    SamplingSettings settings =
        new SamplingSettings(0, 0, 1, 0, 1, 0, 0, Map.of(), 0, Set.of(), processor);
    TokenHistory history =
        new TokenHistory() {
          @Override
          public int size() {
            return 1;
          }

          @Override
          public int promptLength() {
            return 1;
          }

          @Override
          public int token(int index) {
            return 0;
          }
        };
    return new SamplingRow(row, settings, history, 0, 0, 1, -1, true);
  }
}
