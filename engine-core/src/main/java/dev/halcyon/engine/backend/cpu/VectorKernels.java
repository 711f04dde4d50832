package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.DType;
import java.nio.ByteBuffer;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * The kernels by jdk.incubator.vector. Only {@link KernelChoice} names this class, once it knows
 * the module is there.
 */
final class VectorKernels implements Kernels {

  private static final VectorSpecies<Float> FLOATS = VectorMemory.FLOATS;
  private static final int LANES = FLOATS.length();

  /** The exponentials that are added in float32. */
  private static final int EXP_RUN = 256;

  private static final float GELU_FACTOR = (float) (2 * Math.sqrt(2 / Math.PI));
  private static final float GELU_CUBIC = 0.044715f;

  private final DotTile bf16 = new Bf16DotTile();
  private final DotTile f16 = new F16DotTile();
  private final DotTile f32 = new F32DotTile();

  @Override
  public String description() {
    return "jdk.incubator.vector, " + FLOATS.vectorBitSize() + " bits";
  }

  @Override
  public int lanes() {
    return LANES;
  }

  @Override
  public Object view(ByteBuffer weights) {
    return VectorMemory.view(weights);
  }

  @Override
  public void pack(DType weights, float[] x, int from, int cols, float[] to, int toIndex) {
    if (weights == DType.F32) {
      System.arraycopy(x, from, to, toIndex, cols);
      return;
    }
    int half = cols / 2;
    for (int i = 0; i < half; i++) {
      to[toIndex + i] = x[from + 2 * i];
      to[toIndex + half + i] = x[from + 2 * i + 1];
    }
    if (cols % 2 == 1) {
      to[toIndex + cols - 1] = x[from + cols - 1];
    }
  }

  @Override
  public void dot(Slab w, int row, int rows, float[] x, int batch, float[] y, Scratch scratch) {
    float[] sums = scratch.a(VectorSums.ARRAY);
    DotTile tile =
        switch (w.dtype()) {
          case BF16 -> bf16;
          case F16 -> f16;
          case F32 -> f32;
        };
    for (int r = 0; r < rows; r += 4) {
      for (int b = 0; b < batch; b += 4) {
        dotTile(tile, w, row, r, rows, x, b, batch, y, sums);
      }
    }
  }

  /**
   * Up to four weight rows with up to four activation rows; the last of either stands in for
   * missing ones.
   */
  private static void dotTile(
      DotTile tile,
      Slab w,
      int row,
      int r,
      int rows,
      float[] x,
      int b,
      int batch,
      float[] y,
      float[] sums) {
    int cols = w.cols();
    long o0 = w.rowOffset(row + r);
    long o1 = w.rowOffset(row + Math.min(r + 1, rows - 1));
    long o2 = w.rowOffset(row + Math.min(r + 2, rows - 1));
    long o3 = w.rowOffset(row + Math.min(r + 3, rows - 1));
    int x0 = b * cols;
    boolean special;
    if (batch - b == 1) {
      special = tile.one(w.view(), o0, o1, o2, o3, cols, x, x0, sums);
    } else {
      int x1 = Math.min(b + 1, batch - 1) * cols;
      int x2 = Math.min(b + 2, batch - 1) * cols;
      int x3 = Math.min(b + 3, batch - 1) * cols;
      special = tile.four(w.view(), o0, o1, o2, o3, cols, x, x0, x1, x2, x3, sums);
    }
    int begin = tile.vectorised(cols);
    for (int i = b; i < Math.min(b + 4, batch); i++) {
      for (int j = r; j < Math.min(r + 4, rows); j++) {
        float sum = sums[4 * (i - b) + j - r];
        y[i * rows + j] = begin == cols ? sum : sum + tail(w, row + j, begin, x, i * cols);
        if (special && hasSpecial(w, row + j)) {
          y[i * rows + j] = tail(w, row + j, 0, x, i * cols);
        }
      }
    }
  }

  private static boolean hasSpecial(Slab w, int row) {
    for (int i = 0; i < w.cols(); i++) {
      if (!Float.isFinite(w.element(row, i))) {
        return true;
      }
    }
    return false;
  }

  /** The product over the columns from begin on. */
  private static float tail(Slab w, int row, int begin, float[] x, int from) {
    int cols = w.cols();
    int half = cols / 2;
    float sum = 0;
    for (int i = begin; i < cols; i++) {
      int at = w.dtype() == DType.F32 || i == 2 * half ? i : (i & 1) * half + i / 2;
      sum += w.element(row, i) * x[from + at];
    }
    return sum;
  }

  @Override
  public void widen(DType type, short[] from, int count, float[] to) {
    VectorWiden.widen(type, from, count, to);
  }

  @Override
  public float sum(float[] x, int from, int count) {
    return VectorSums.sum(x, from, count);
  }

  @Override
  public float sumOfSquares(float[] x, int from, int count) {
    FloatVector a0 = FloatVector.zero(FLOATS);
    FloatVector a1 = a0;
    int i = from;
    int end = from + count;
    for (; i + 2 * LANES <= end; i += 2 * LANES) {
      FloatVector x0 = FloatVector.fromArray(FLOATS, x, i);
      FloatVector x1 = FloatVector.fromArray(FLOATS, x, i + LANES);
      a0 = x0.fma(x0, a0);
      a1 = x1.fma(x1, a1);
    }
    float tail = 0;
    for (; i < end; i++) {
      tail += x[i] * x[i];
    }
    return VectorSums.sum(a0.add(a1), new float[VectorSums.ARRAY]) + tail;
  }

  @Override
  public float expAndSum(float[] x, int from, int count, float max) {
    FloatVector sum = FloatVector.zero(FLOATS);
    for (int i = from; i < from + count; i += LANES) {
      FloatVector e = VectorMath.exp(FloatVector.fromArray(FLOATS, x, i).sub(max));
      e.intoArray(x, i);
      sum = sum.add(e);
    }
    return VectorSums.sum(sum, new float[VectorSums.ARRAY]);
  }

  @Override
  public float max(float[] x, int count) {
    FloatVector a0 = FloatVector.broadcast(FLOATS, Float.NEGATIVE_INFINITY);
    FloatVector a1 = a0;
    int i = 0;
    for (; i + 2 * LANES <= count; i += 2 * LANES) {
      a0 = a0.max(FloatVector.fromArray(FLOATS, x, i));
      a1 = a1.max(FloatVector.fromArray(FLOATS, x, i + LANES));
    }
    float max = a0.max(a1).reduceLanes(VectorOperators.MAX);
    for (; i < count; i++) {
      max = Math.max(max, x[i]);
    }
    return max;
  }

  @Override
  public double sumOfExp(float[] x, int count, float max) {
    double sum = 0;
    int i = 0;
    float[] spill = new float[VectorSums.ARRAY];
    for (; i + EXP_RUN <= count; i += EXP_RUN) {
      sum += VectorSums.sum(sumOfRun(x, i, max), spill);
    }
    for (; i < count; i++) {
      sum += Math.exp(x[i] - max);
    }
    return sum;
  }

  private static FloatVector sumOfRun(float[] x, int from, float max) {
    FloatVector sum = FloatVector.zero(FLOATS);
    for (int i = from; i < from + EXP_RUN; i += LANES) {
      sum = sum.add(VectorMath.exp(FloatVector.fromArray(FLOATS, x, i).sub(max)));
    }
    return sum;
  }

  @Override
  public void silu(float[] x, int count) {
    int i = 0;
    for (; i + LANES <= count; i += LANES) {
      silu(FloatVector.fromArray(FLOATS, x, i)).intoArray(x, i);
    }
    if (i < count) {
      float[] tail = Arrays.copyOf(Arrays.copyOfRange(x, i, count), LANES);
      silu(FloatVector.fromArray(FLOATS, tail, 0)).intoArray(tail, 0);
      System.arraycopy(tail, 0, x, i, count - i);
    }
  }

  private static FloatVector silu(FloatVector x) {
    return x.div(VectorMath.exp(x.neg()).add(1f));
  }

  @Override
  public void geluTanh(float[] x, int count) {
    int i = 0;
    for (; i + LANES <= count; i += LANES) {
      geluTanh(FloatVector.fromArray(FLOATS, x, i)).intoArray(x, i);
    }
    if (i < count) {
      float[] tail = Arrays.copyOf(Arrays.copyOfRange(x, i, count), LANES);
      geluTanh(FloatVector.fromArray(FLOATS, tail, 0)).intoArray(tail, 0);
      System.arraycopy(tail, 0, x, i, count - i);
    }
  }

  /** (1 + tanh(u)) / 2 is sigmoid(2u), which loses no digits where tanh(u) is near -1. */
  private static FloatVector geluTanh(FloatVector x) {
    FloatVector twice = x.mul(x).mul(x).mul(GELU_CUBIC).add(x).mul(GELU_FACTOR);
    return x.div(VectorMath.exp(twice.neg()).add(1f));
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
    VectorAttention.scores(q, queries, dim, k, k0, kStride, keys, s, s0, sStride);
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
    VectorAttention.weightedSum(p, pStride, queries, v, from, to, dim, acc, accStride);
  }
}
