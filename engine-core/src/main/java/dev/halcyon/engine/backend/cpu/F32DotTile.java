package dev.halcyon.engine.backend.cpu;

import java.lang.invoke.MethodHandle;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorSpecies;

/** Products with float32 weights. */
final class F32DotTile implements DotTile {

  private static final VectorSpecies<Float> FLOATS = VectorMemory.FLOATS;
  private static final int LANES = FLOATS.length();
  private static final MethodHandle LOAD = VectorMemory.LOAD;

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
    int end = vectorised(cols);
    try {
      for (int i = 0; i < end; i += 2 * LANES) {
        long at = 4L * i;
        long next = at + 4L * LANES;
        FloatVector e = FloatVector.fromArray(FLOATS, x, x0 + i);
        a0 = ((IntVector) LOAD.invokeExact(view, o0 + at)).reinterpretAsFloats().fma(e, a0);
        a1 = ((IntVector) LOAD.invokeExact(view, o1 + at)).reinterpretAsFloats().fma(e, a1);
        a2 = ((IntVector) LOAD.invokeExact(view, o2 + at)).reinterpretAsFloats().fma(e, a2);
        a3 = ((IntVector) LOAD.invokeExact(view, o3 + at)).reinterpretAsFloats().fma(e, a3);
        FloatVector f = FloatVector.fromArray(FLOATS, x, x0 + i + LANES);
        a0 = ((IntVector) LOAD.invokeExact(view, o0 + next)).reinterpretAsFloats().fma(f, a0);
        a1 = ((IntVector) LOAD.invokeExact(view, o1 + next)).reinterpretAsFloats().fma(f, a1);
        a2 = ((IntVector) LOAD.invokeExact(view, o2 + next)).reinterpretAsFloats().fma(f, a2);
        a3 = ((IntVector) LOAD.invokeExact(view, o3 + next)).reinterpretAsFloats().fma(f, a3);
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
    int end = cols - cols % (2 * LANES);
    try {
      for (int i = 0; i < end; i += LANES) {
        long at = 4L * i;
        FloatVector w0 = ((IntVector) LOAD.invokeExact(view, o0 + at)).reinterpretAsFloats();
        FloatVector w1 = ((IntVector) LOAD.invokeExact(view, o1 + at)).reinterpretAsFloats();
        FloatVector e0 = FloatVector.fromArray(FLOATS, x, x0 + i);
        a00 = w0.fma(e0, a00);
        a01 = w1.fma(e0, a01);
        FloatVector e1 = FloatVector.fromArray(FLOATS, x, x1 + i);
        a10 = w0.fma(e1, a10);
        a11 = w1.fma(e1, a11);
        FloatVector e2 = FloatVector.fromArray(FLOATS, x, x2 + i);
        a20 = w0.fma(e2, a20);
        a21 = w1.fma(e2, a21);
        FloatVector e3 = FloatVector.fromArray(FLOATS, x, x3 + i);
        a30 = w0.fma(e3, a30);
        a31 = w1.fma(e3, a31);
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
