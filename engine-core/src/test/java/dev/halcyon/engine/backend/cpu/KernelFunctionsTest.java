package dev.halcyon.engine.backend.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The functions of both kernels against double precision. */
class KernelFunctionsTest {

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void expIsWithinTwoUnitsInTheLastPlace(boolean vector) {
    Kernels kernels = KernelChoice.choose(vector);
    int count = 64 * 1024;
    float[] x = new float[count];
    Random random = new Random(1);
    for (int i = 0; i < count; i++) {
      x[i] = i < 1000 ? -i * 1e-6f : -87.3f * random.nextFloat();
    }
    float[] y = x.clone();
    for (int tile = 0; tile < count; tile += 64) {
      float sum = kernels.expAndSum(y, tile, 64, 0);
      double total = 0;
      for (int i = tile; i < tile + 64; i++) {
        double expected = Math.exp(x[i]);
        total += y[i];
        if (!(Math.abs(y[i] - expected) <= 2 * Math.ulp((float) expected))) {
          throw new AssertionError("exp(" + x[i] + ") is " + y[i] + ", not " + expected);
        }
      }
      // 63 additions, each right to half a unit in the last place.
      assertThat(Math.abs(sum - total)).isLessThan(63 * 6e-8 * total);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void expOfMinusInfinityIsZeroAndNanStays(boolean vector) {
    Kernels kernels = KernelChoice.choose(vector);
    float[] x = new float[64];
    x[0] = Float.NEGATIVE_INFINITY;
    x[1] = -1e30f;
    x[2] = Float.NaN;
    float sum = kernels.expAndSum(x, 0, 64, 0);
    assertThat(x[0]).isZero();
    assertThat(x[1]).isZero();
    assertThat(x[2]).isNaN();
    assertThat(x[3]).isEqualTo(1f);
    assertThat(sum).isNaN();
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void sumOfAnyCount(boolean vector) {
    Kernels kernels = KernelChoice.choose(vector);
    for (int count = 0; count < 400; count++) {
      float[] x = new float[count + 3];
      for (int i = 0; i < count; i++) {
        x[i + 2] = i + 1;
      }
      x[1] = 1e10f;
      x[count + 2] = 1e10f;
      // 1 + 2 + ... + n = n (n + 1) / 2, below 2^24 for these, so exact.
      assertThat((double) kernels.sum(x, 2, count)).isEqualTo(count * (count + 1) / 2.0);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void maxAndSumOfExpOfAnyCount(boolean vector) {
    Kernels kernels = KernelChoice.choose(vector);
    Random random = new Random(2);
    for (int count = 1; count < 600; count++) {
      float[] x = new float[count + 1];
      x[count] = 1e10f;
      float max = Float.NEGATIVE_INFINITY;
      for (int i = 0; i < count; i++) {
        x[i] = i % 7 == 6 ? Float.NEGATIVE_INFINITY : (float) (5 * random.nextGaussian()) - 100;
        max = Math.max(max, x[i]);
      }
      assertThat(kernels.max(x, count)).isEqualTo(max);
      double sum = 0;
      for (int i = 0; i < count; i++) {
        sum += Math.exp((double) x[i] - max);
      }
      float[] before = x.clone();
      assertThat(Math.abs(kernels.sumOfExp(x, count, max) - sum)).isLessThan(1e-6 * sum);
      assertThat(x).isEqualTo(before);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void sumOfSquaresOfAnyCount(boolean vector) {
    Kernels kernels = KernelChoice.choose(vector);
    for (int count = 0; count < 130; count++) {
      float[] x = new float[count + 3];
      for (int i = 0; i < count; i++) {
        x[i + 2] = i + 1;
      }
      x[0] = 1e10f;
      x[count + 2] = 1e10f;
      // 1 + 4 + ... + n^2 = n (n + 1) (2n + 1) / 6, below 2^24 for these, so exact.
      double expected = count * (count + 1) * (2 * count + 1) / 6;
      assertThat((double) kernels.sumOfSquares(x, 2, count)).isEqualTo(expected);
    }
  }

  @Test
  void tanhAndGeluAreRightToFloat32() {
    for (float x = -30; x <= 30; x += 0.0137f) {
      double expected = Math.tanh(x);
      assertThat(Math.abs(Activations.tanh(x) - expected)).isLessThan(1.2e-7 * Math.abs(expected));
    }
    for (float x = 1e-8f; x < 0.1f; x *= 1.01f) {
      double expected = Math.tanh(x);
      assertThat(Math.abs(Activations.tanh(x) - expected)).isLessThan(1.2e-7 * expected);
    }
    // Phi(1) = 0.8413447460685429, Phi(-2) = 0.022750131948179195 (Abramowitz and Stegun, table
    // 26.1).
    assertThat(Activations.gelu(1)).isEqualTo(0.8413447460685429f);
    assertThat(Activations.gelu(-2)).isEqualTo(-2 * 0.022750131948179195f);
    assertThat(Activations.gelu(100)).isEqualTo(100);
    assertThat(Activations.gelu(-100)).isZero();
    assertThat(Activations.gelu(Float.NaN)).isNaN();
  }
}
