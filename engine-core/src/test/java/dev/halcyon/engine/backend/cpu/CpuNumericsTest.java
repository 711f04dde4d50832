package dev.halcyon.engine.backend.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.backend.AttentionScenario;
import dev.halcyon.engine.backend.AttentionSpec;
import dev.halcyon.engine.backend.BackendHarness;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.HostTensor;
import dev.halcyon.engine.backend.Matrix;
import dev.halcyon.engine.backend.RopeLayout;
import dev.halcyon.engine.backend.TestTensors;
import dev.halcyon.engine.logits.DeviceBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.assertj.core.data.Offset;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Results are the same to the bit whatever is computed beside them, and near for other kernels. */
class CpuNumericsTest {

  private static final BackendOptions ONE_THREAD = new BackendOptions(1, 64L << 20, 0, 0);
  private static final BackendOptions THREE_THREADS = new BackendOptions(3, 64L << 20, 0, 0);

  private static float[] linear(
      CpuBackend backend, HostTensor tensor, float[] x, int firstRow, int rows) {
    BackendHarness harness = new BackendHarness(backend);
    int cols = tensor.cols();
    float[] some = Arrays.copyOfRange(x, firstRow * cols, (firstRow + rows) * cols);
    try (Matrix weight = backend.load(List.of(tensor));
        DeviceBuffer from = harness.filled(rows, cols, some);
        DeviceBuffer to = harness.poisoned(rows, tensor.rows())) {
      backend.linear(from, rows, weight, null, to);
      return harness.read(to, rows * tensor.rows());
    }
  }

  /** Rows in every remainder of the kernel's blocks of four, outputs and columns with tails. */
  @ParameterizedTest
  @EnumSource
  void aRowGivesTheSameBitsAloneAndInAnyBatchOnAnyThreads(DType type) {
    int cols = 533;
    int outputs = 203;
    int rows = 39;
    Random random = new Random(7);
    HostTensor tensor =
        TestTensors.tensor(
            type, outputs, cols, TestTensors.random(type, outputs * cols, 1, random), 59);
    float[] x = TestTensors.random(DType.F32, rows * cols, 1, random);
    for (boolean vector : new boolean[] {true, false}) {
      Kernels kernels = KernelChoice.choose(vector);
      try (CpuBackend one = new CpuBackend(ONE_THREAD, kernels, null);
          CpuBackend three = new CpuBackend(THREE_THREADS, kernels, null)) {
        float[] all = linear(three, tensor, x, 0, rows);
        assertThat(linear(one, tensor, x, 0, rows)).isEqualTo(all);
        for (int first = 0, count = 1; first + count <= rows; first += count, count++) {
          assertThat(linear(one, tensor, x, first, count))
              .isEqualTo(Arrays.copyOfRange(all, first * outputs, (first + count) * outputs));
        }
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void blasAndBothKernelsAgree(DType type) {
    int cols = 533;
    int outputs = 400;
    int rows = 40;
    Random random = new Random(8);
    HostTensor tensor =
        TestTensors.tensor(
            type, outputs, cols, TestTensors.random(type, outputs * cols, 1, random), 150);
    float[] x = TestTensors.random(DType.F32, rows * cols, 1, random);
    float[] vector = all(KernelChoice.choose(true), null, tensor, x, rows);
    float[] scalar = all(KernelChoice.choose(false), null, tensor, x, rows);
    float[] blas = all(KernelChoice.choose(true), Blas.load().orElseThrow(), tensor, x, rows);
    for (int i = 0; i < vector.length; i++) {
      // Sums of 533 products of size 1: magnitudes add up to about 340.
      assertThat((double) scalar[i]).isCloseTo(vector[i], within(2e-4));
      assertThat((double) blas[i]).isCloseTo(vector[i], within(2e-4));
    }
    assertThat(blas).as("BLAS was used").isNotEqualTo(vector);
  }

  private static Offset<Double> within(double offset) {
    return Offset.offset(offset);
  }

  private static float[] all(Kernels kernels, Blas blas, HostTensor tensor, float[] x, int rows) {
    try (CpuBackend backend = new CpuBackend(THREE_THREADS, kernels, blas)) {
      return linear(backend, tensor, x, 0, rows);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 4, 16, 32})
  void attentionDoesNotDependOnChunksOrThreads(int blockSize) {
    AttentionSpec spec = new AttentionSpec(6, 2, 20, 0.25f, 70, 0);
    int[] lengths = {130, 33, 1, 97};
    for (boolean vector : new boolean[] {true, false}) {
      Kernels kernels = KernelChoice.choose(vector);
      try (BackendHarness one = new BackendHarness(new CpuBackend(ONE_THREAD, kernels, null));
          BackendHarness three = new BackendHarness(new CpuBackend(THREE_THREADS, kernels, null))) {
        float[][] whole =
            new AttentionScenario(one, spec, 20, RopeLayout.HALVES, blockSize, lengths, 9)
                .run(1000);
        for (int[] chunks : new int[][] {{1}, {7}, {64, 1}, {100, 5, 3}}) {
          float[][] cut =
              new AttentionScenario(three, spec, 20, RopeLayout.HALVES, blockSize, lengths, 9)
                  .run(chunks);
          assertThat(cut).isEqualTo(whole);
        }
      }
    }
  }

  /**
   * 65504 * 1 + inf * 1 = inf; inf * 0 and NaN give NaN; a row without them is untouched by them.
   */
  @Test
  void infiniteAndNanWeightsOfHalfPrecisionCount() {
    int cols = 100;
    float[] w = new float[6 * cols];
    Arrays.fill(w, 1f);
    HostTensor tensor = TestTensors.tensor(DType.F16, 6, cols, w);
    short infinity = 0x7c00;
    short nan = 0x7e01;
    tensor.segments().get(0).putShort(2 * 7, infinity);
    tensor.segments().get(0).putShort(2 * (cols + 8), (short) (infinity | 0x8000));
    tensor.segments().get(0).putShort(2 * (2 * cols + 98), nan);
    tensor.segments().get(0).putShort(2 * (3 * cols + 50), nan);
    float[] x = new float[2 * cols];
    Arrays.fill(x, 2f);
    for (boolean vector : new boolean[] {true, false}) {
      try (CpuBackend backend = new CpuBackend(ONE_THREAD, KernelChoice.choose(vector), null)) {
        for (int rows = 1; rows <= 2; rows++) {
          float[] y = linear(backend, tensor, x, 0, rows);
          for (int r = 0; r < rows; r++) {
            assertThat(Arrays.copyOfRange(y, 6 * r, 6 * r + 6))
                .containsExactly(
                    Float.POSITIVE_INFINITY,
                    Float.NEGATIVE_INFINITY,
                    Float.NaN,
                    Float.NaN,
                    200f,
                    200f);
          }
        }
      }
    }
  }
}
