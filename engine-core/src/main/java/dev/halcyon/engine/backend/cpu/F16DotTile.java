package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.HalfFloats;
import java.lang.invoke.MethodHandle;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * Products with IEEE half-precision weights, loaded in pairs as ints: even columns and odd ones,
 * which is how activations are packed too.
 *
 * <p>Exponent and mantissa move to the places of a float's, and a factor corrects the exponent,
 * which is exact for subnormal numbers too. Infinities and NaN would become ordinary numbers by
 * that: they are only noticed here. Two rows at a time and no more operations than needed, as
 * HotSpot stops inlining (and so vectorising) larger loops.
 */
final class F16DotTile implements DotTile {

  private static final VectorSpecies<Float> FLOATS = VectorMemory.FLOATS;
  private static final int LANES = FLOATS.length();
  private static final MethodHandle LOAD = VectorMemory.LOAD;

  /**
   * Sign, exponent and mantissa of a half in a float's places, the sign repeated in the three bits
   * between.
   */
  private static final int BITS = 0x8fffe000;

  /** The exponents of both halves of a pair. */
  private static final int EXPONENTS = 0x7c007c00;

  /**
   * Adding one to an exponent of all ones (infinity or NaN), and only to that, carries to the
   * sign's bit.
   */
  private static final int CARRY = 0x04000400;

  @Override
  public int vectorised(int cols) {
    return cols - cols % (2 * LANES);
  }

  @Override
  public boolean one(
      Object view, long o0, long o1, long o2, long o3, int cols, float[] x, int x0, float[] sums) {
    return twoRows(view, o0, o1, cols, x, x0, sums, 0)
        | twoRows(view, o2, o3, cols, x, x0, sums, 2);
  }

  private static boolean twoRows(
      Object view, long o0, long o1, int cols, float[] x, int x0, float[] sums, int r) {
    FloatVector a0 = FloatVector.zero(FLOATS);
    FloatVector a1 = a0;
    IntVector carry = IntVector.zero(VectorMemory.INTS);
    int end = (cols - cols % (2 * LANES)) / 2;
    int odd = x0 + cols / 2;
    try {
      for (int i = 0; i < end; i += LANES) {
        IntVector w0 = (IntVector) LOAD.invokeExact(view, o0 + 4L * i);
        IntVector w1 = (IntVector) LOAD.invokeExact(view, o1 + 4L * i);
        FloatVector e = FloatVector.fromArray(FLOATS, x, x0 + i);
        FloatVector o = FloatVector.fromArray(FLOATS, x, odd + i);
        a0 =
            w0.lanewise(VectorOperators.ASHR, 3)
                .and(BITS)
                .reinterpretAsFloats()
                .mul(HalfFloats.F16_SCALE)
                .fma(
                    o,
                    w0.lanewise(VectorOperators.LSHL, 16)
                        .lanewise(VectorOperators.ASHR, 3)
                        .and(BITS)
                        .reinterpretAsFloats()
                        .mul(HalfFloats.F16_SCALE)
                        .fma(e, a0));
        a1 =
            w1.lanewise(VectorOperators.ASHR, 3)
                .and(BITS)
                .reinterpretAsFloats()
                .mul(HalfFloats.F16_SCALE)
                .fma(
                    o,
                    w1.lanewise(VectorOperators.LSHL, 16)
                        .lanewise(VectorOperators.ASHR, 3)
                        .and(BITS)
                        .reinterpretAsFloats()
                        .mul(HalfFloats.F16_SCALE)
                        .fma(e, a1));
        carry = carry.or(w0.and(EXPONENTS).add(CARRY)).or(w1.and(EXPONENTS).add(CARRY));
      }
    } catch (Throwable t) {
      throw VectorMemory.unexpected(t);
    }
    sums[r] = VectorSums.sum(a0, sums);
    sums[r + 1] = VectorSums.sum(a1, sums);
    return special(carry);
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
    return twoRows(view, o0, o1, cols, x, x0, x1, x2, x3, sums, 0)
        | twoRows(view, o2, o3, cols, x, x0, x1, x2, x3, sums, 2);
  }

  private static boolean twoRows(
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
    IntVector carry = IntVector.zero(VectorMemory.INTS);
    int half = cols / 2;
    int end = (cols - cols % (2 * LANES)) / 2;
    try {
      for (int i = 0; i < end; i += LANES) {
        int odd = half + i;
        IntVector w0 = (IntVector) LOAD.invokeExact(view, o0 + 4L * i);
        FloatVector l0 =
            w0.lanewise(VectorOperators.LSHL, 16)
                .lanewise(VectorOperators.ASHR, 3)
                .and(BITS)
                .reinterpretAsFloats()
                .mul(HalfFloats.F16_SCALE);
        FloatVector h0 =
            w0.lanewise(VectorOperators.ASHR, 3)
                .and(BITS)
                .reinterpretAsFloats()
                .mul(HalfFloats.F16_SCALE);
        IntVector w1 = (IntVector) LOAD.invokeExact(view, o1 + 4L * i);
        FloatVector l1 =
            w1.lanewise(VectorOperators.LSHL, 16)
                .lanewise(VectorOperators.ASHR, 3)
                .and(BITS)
                .reinterpretAsFloats()
                .mul(HalfFloats.F16_SCALE);
        FloatVector h1 =
            w1.lanewise(VectorOperators.ASHR, 3)
                .and(BITS)
                .reinterpretAsFloats()
                .mul(HalfFloats.F16_SCALE);
        carry = carry.or(w0.and(EXPONENTS).add(CARRY)).or(w1.and(EXPONENTS).add(CARRY));
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
    return special(carry);
  }

  private static boolean special(IntVector carries) {
    return (carries.reduceLanes(VectorOperators.OR) & 0x80008000) != 0;
  }
}
