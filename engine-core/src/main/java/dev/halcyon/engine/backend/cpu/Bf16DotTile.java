package dev.halcyon.engine.backend.cpu;

import java.lang.invoke.MethodHandle;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * Products with bfloat16 weights. Pairs of weights are loaded as ints, and become two vectors of
 * floats (a bfloat16 is the upper half of a float): the even columns and the odd ones, which is how
 * activations are packed too.
 */
final class Bf16DotTile implements DotTile {

  private static final VectorSpecies<Float> FLOATS = VectorMemory.FLOATS;
  private static final int LANES = FLOATS.length();
  private static final MethodHandle LOAD = VectorMemory.LOAD;

  /** The bits of the odd column in a pair. */
  private static final int HIGH = 0xffff0000;

  @Override
  public int vectorised(int cols) {
    return cols - cols % (2 * LANES);
  }

  @Override
  public boolean one(
      Object view, long o0, long o1, long o2, long o3, int cols, float[] x, int x0, float[] sums) {
    FloatVector a0 = FloatVector.zero(FLOATS);
    FloatVector a1 = a0;
    FloatVector a2 = a0;
    FloatVector a3 = a0;
    int end = vectorised(cols) / 2;
    int odd = x0 + cols / 2;
    try {
      for (int i = 0; i < end; i += LANES) {
        long at = 4L * i;
        FloatVector e = FloatVector.fromArray(FLOATS, x, x0 + i);
        FloatVector o = FloatVector.fromArray(FLOATS, x, odd + i);
        IntVector w0 = (IntVector) LOAD.invokeExact(view, o0 + at);
        IntVector w1 = (IntVector) LOAD.invokeExact(view, o1 + at);
        IntVector w2 = (IntVector) LOAD.invokeExact(view, o2 + at);
        IntVector w3 = (IntVector) LOAD.invokeExact(view, o3 + at);
        a0 =
            w0.and(HIGH)
                .reinterpretAsFloats()
                .fma(o, w0.lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats().fma(e, a0));
        a1 =
            w1.and(HIGH)
                .reinterpretAsFloats()
                .fma(o, w1.lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats().fma(e, a1));
        a2 =
            w2.and(HIGH)
                .reinterpretAsFloats()
                .fma(o, w2.lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats().fma(e, a2));
        a3 =
            w3.and(HIGH)
                .reinterpretAsFloats()
                .fma(o, w3.lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats().fma(e, a3));
      }
    } catch (Throwable t) {
      throw VectorMemory.unexpected(t);
    }
    sums[0] = VectorSums.sum(a0, sums);
    sums[1] = VectorSums.sum(a1, sums);
    sums[2] = VectorSums.sum(a2, sums);
    sums[3] = VectorSums.sum(a3, sums);
    return false;
  }

  @Override
  public boolean four(
      Object view,
      long o0,
      long o1,
      long o2,
      long o3,
      int cols,
      float[] x,
      int x0,
      int x1,
      int x2,
      int x3,
      float[] sums) {
    twoRows(view, o0, o1, cols, x, x0, x1, x2, x3, sums, 0);
    twoRows(view, o2, o3, cols, x, x0, x1, x2, x3, sums, 2);
    return false;
  }

  /**
   * Two weight rows with four activation rows: eight accumulators, which fit any machine's
   * registers.
   */
  private static void twoRows(
      Object view,
      long o0,
      long o1,
      int cols,
      float[] x,
      int x0,
      int x1,
      int x2,
      int x3,
      float[] sums,
      int r) {
    FloatVector a00 = FloatVector.zero(FLOATS);
    FloatVector a01 = a00;
    FloatVector a10 = a00;
    FloatVector a11 = a00;
    FloatVector a20 = a00;
    FloatVector a21 = a00;
    FloatVector a30 = a00;
    FloatVector a31 = a00;
    int half = cols / 2;
    int end = (cols - cols % (2 * LANES)) / 2;
    try {
      for (int i = 0; i < end; i += LANES) {
        long at = 4L * i;
        int odd = half + i;
        IntVector w0 = (IntVector) LOAD.invokeExact(view, o0 + at);
        FloatVector l0 = w0.lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats();
        FloatVector h0 = w0.and(HIGH).reinterpretAsFloats();
        IntVector w1 = (IntVector) LOAD.invokeExact(view, o1 + at);
        FloatVector l1 = w1.lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats();
        FloatVector h1 = w1.and(HIGH).reinterpretAsFloats();
        FloatVector e0 = FloatVector.fromArray(FLOATS, x, x0 + i);
        FloatVector f0 = FloatVector.fromArray(FLOATS, x, x0 + odd);
        a00 = h0.fma(f0, l0.fma(e0, a00));
        a01 = h1.fma(f0, l1.fma(e0, a01));
        FloatVector e1 = FloatVector.fromArray(FLOATS, x, x1 + i);
        FloatVector f1 = FloatVector.fromArray(FLOATS, x, x1 + odd);
        a10 = h0.fma(f1, l0.fma(e1, a10));
        a11 = h1.fma(f1, l1.fma(e1, a11));
        FloatVector e2 = FloatVector.fromArray(FLOATS, x, x2 + i);
        FloatVector f2 = FloatVector.fromArray(FLOATS, x, x2 + odd);
        a20 = h0.fma(f2, l0.fma(e2, a20));
        a21 = h1.fma(f2, l1.fma(e2, a21));
        FloatVector e3 = FloatVector.fromArray(FLOATS, x, x3 + i);
        FloatVector f3 = FloatVector.fromArray(FLOATS, x, x3 + odd);
        a30 = h0.fma(f3, l0.fma(e3, a30));
        a31 = h1.fma(f3, l1.fma(e3, a31));
      }
    } catch (Throwable t) {
      throw VectorMemory.unexpected(t);
    }
    sums[r + 0] = VectorSums.sum(a00, sums);
    sums[r + 1] = VectorSums.sum(a01, sums);
    sums[r + 4] = VectorSums.sum(a10, sums);
    sums[r + 5] = VectorSums.sum(a11, sums);
    sums[r + 8] = VectorSums.sum(a20, sums);
    sums[r + 9] = VectorSums.sum(a21, sums);
    sums[r + 12] = VectorSums.sum(a30, sums);
    sums[r + 13] = VectorSums.sum(a31, sums);
  }
}
