package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.HalfFloats;
import java.nio.ByteBuffer;

/**
 * Plain Java, for machines and JVMs without the vector module. The loops are of the kinds that
 * HotSpot vectorises by itself; where a sum's fixed order keeps it from that, eight partial sums at
 * least keep the processor busy.
 */
final class ScalarKernels implements Kernels {

  private static final float GELU_FACTOR = (float) (2 * Math.sqrt(2 / Math.PI));
  private static final float GELU_CUBIC = 0.044715f;

  @Override
  public String description() {
    return "plain Java";
  }

  @Override
  public int lanes() {
    return 1;
  }

  @Override
  public Object view(ByteBuffer weights) {
    return weights;
  }

  @Override
  public void pack(DType weights, float[] x, int from, int cols, float[] to, int toIndex) {
    System.arraycopy(x, from, to, toIndex, cols);
  }

  @Override
  public void dot(Slab w, int row, int rows, float[] x, int batch, float[] y, Scratch scratch) {
    int cols = w.cols();
    float[] wide = scratch.b(cols);
    for (int r = 0; r < rows; r++) {
      w.widenRow(row + r, this, scratch, wide);
      for (int b = 0; b < batch; b++) {
        y[b * rows + r] = dot(wide, x, b * cols, cols);
      }
    }
  }

  private static float dot(float[] w, float[] x, int from, int count) {
    float s0 = 0;
    float s1 = 0;
    float s2 = 0;
    float s3 = 0;
    float s4 = 0;
    float s5 = 0;
    float s6 = 0;
    float s7 = 0;
    int i = 0;
    for (; i + 8 <= count; i += 8) {
      s0 += w[i] * x[from + i];
      s1 += w[i + 1] * x[from + i + 1];
      s2 += w[i + 2] * x[from + i + 2];
      s3 += w[i + 3] * x[from + i + 3];
      s4 += w[i + 4] * x[from + i + 4];
      s5 += w[i + 5] * x[from + i + 5];
      s6 += w[i + 6] * x[from + i + 6];
      s7 += w[i + 7] * x[from + i + 7];
    }
    float tail = 0;
    for (; i < count; i++) {
      tail += w[i] * x[from + i];
    }
    return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7)) + tail;
  }

  @Override
  public void widen(DType type, short[] from, int count, float[] to) {
    if (type == DType.BF16) {
      for (int i = 0; i < count; i++) {
        to[i] = HalfFloats.bf16(from[i]);
      }
    } else {
      for (int i = 0; i < count; i++) {
        to[i] = HalfFloats.f16(from[i]);
      }
    }
  }

  @Override
  public float sum(float[] x, int from, int count) {
    float s0 = 0;
    float s1 = 0;
    float s2 = 0;
    float s3 = 0;
    int i = 0;
    for (; i + 4 <= count; i += 4) {
      s0 += x[from + i];
      s1 += x[from + i + 1];
      s2 += x[from + i + 2];
      s3 += x[from + i + 3];
    }
    float tail = 0;
    for (; i < count; i++) {
      tail += x[from + i];
    }
    return (s0 + s2) + (s1 + s3) + tail;
  }

  @Override
  public float sumOfSquares(float[] x, int from, int count) {
    float s0 = 0;
    float s1 = 0;
    float s2 = 0;
    float s3 = 0;
    int i = 0;
    for (; i + 4 <= count; i += 4) {
      s0 += x[from + i] * x[from + i];
      s1 += x[from + i + 1] * x[from + i + 1];
      s2 += x[from + i + 2] * x[from + i + 2];
      s3 += x[from + i + 3] * x[from + i + 3];
    }
    float tail = 0;
    for (; i < count; i++) {
      tail += x[from + i] * x[from + i];
    }
    return (s0 + s2) + (s1 + s3) + tail;
  }

  @Override
  public float expAndSum(float[] x, int from, int count, float max) {
    float sum = 0;
    for (int i = from; i < from + count; i++) {
      x[i] = (float) Math.exp(x[i] - max);
      sum += x[i];
    }
    return sum;
  }

  @Override
  public float max(float[] x, int count) {
    float max = x[0];
    for (int i = 1; i < count; i++) {
      max = Math.max(max, x[i]);
    }
    return max;
  }

  @Override
  public double sumOfExp(float[] x, int count, float max) {
    double sum = 0;
    for (int i = 0; i < count; i++) {
      sum += Math.exp(x[i] - max);
    }
    return sum;
  }

  @Override
  public void silu(float[] x, int count) {
    for (int i = 0; i < count; i++) {
      x[i] = (float) (x[i] / (1 + Math.exp(-x[i])));
    }
  }

  @Override
  public void geluTanh(float[] x, int count) {
    for (int i = 0; i < count; i++) {
      // (1 + tanh(u)) / 2 is sigmoid(2u), which loses no digits where tanh(u) is near -1.
      double twice = GELU_FACTOR * (x[i] + GELU_CUBIC * x[i] * x[i] * x[i]);
      x[i] = (float) (x[i] / (1 + Math.exp(-twice)));
    }
  }

  @Override
  public void scores(
      float[] q,
      int queries,
      int dim,
      float[] k,
      int k0,
      int kStride,
      int keys,
      float[] s,
      int s0,
      int sStride) {
    for (int i = 0; i < queries; i++) {
      int at = s0 + i * sStride;
      for (int j = 0; j < keys; j++) {
        s[at + j] = 0;
      }
      for (int d = 0; d < dim; d++) {
        addScaled(q[i * dim + d], k, k0 + d * kStride, keys, s, at);
      }
    }
  }

  @Override
  public void weightedSum(
      float[] p,
      int pStride,
      int queries,
      float[] v,
      int from,
      int to,
      int dim,
      float[] acc,
      int accStride) {
    for (int i = 0; i < queries; i++) {
      for (int j = from; j < to; j++) {
        addScaled(p[i * pStride + j], v, j * dim, dim, acc, i * accStride);
      }
    }
  }

  private static void addScaled(
      float factor, float[] x, int from, int count, float[] to, int toIndex) {
    for (int i = 0; i < count; i++) {
      to[toIndex + i] += factor * x[from + i];
    }
  }
}
