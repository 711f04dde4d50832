package dev.halcyon.engine.backend.cpu;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;

/** Functions that the vector module has only as slow calls, or not at all on some JDKs. */
final class VectorMath {

  private static final float LOG2_E = (float) (1 / Math.log(2));

  /**
   * ln 2 in two parts; the first has its lower half zero, so that products with small integers are
   * exact.
   */
  private static final float LN2_HIGH = 0.693359375f;

  private static final float LN2_LOW = (float) (Math.log(2) - 0.693359375);

  /** Adding this rounds a float to an integer, which the sum's lowest bits then hold. */
  private static final float ROUND = 0x1.8p23f;

  private static final float LARGEST = 88f;

  /** Results below this one's would not be normal numbers. */
  private static final float SMALLEST = -87.3f;

  private VectorMath() {}

  /**
   * e to the x, within about one unit in the last place; 0 below -87.3, and the largest result is
   * that of 88. NaN stays NaN.
   *
   * <p>Reduced to |r| at most ln(2) / 2 by x = n ln(2) + r; then Taylor's polynomial to the seventh
   * degree, whose remainder is 5e-9, and n added to the exponent.
   */
  static FloatVector exp(FloatVector x) {
    FloatVector clamped = x.min(LARGEST).max(SMALLEST);
    FloatVector shifted =
        clamped.fma(
            FloatVector.broadcast(VectorMemory.FLOATS, LOG2_E),
            FloatVector.broadcast(VectorMemory.FLOATS, ROUND));
    FloatVector n = shifted.sub(ROUND);
    FloatVector r =
        n.fma(
            FloatVector.broadcast(VectorMemory.FLOATS, -LN2_LOW),
            n.fma(FloatVector.broadcast(VectorMemory.FLOATS, -LN2_HIGH), clamped));
    FloatVector p = FloatVector.broadcast(VectorMemory.FLOATS, 1 / 5040f);
    p = p.fma(r, FloatVector.broadcast(VectorMemory.FLOATS, 1 / 720f));
    p = p.fma(r, FloatVector.broadcast(VectorMemory.FLOATS, 1 / 120f));
    p = p.fma(r, FloatVector.broadcast(VectorMemory.FLOATS, 1 / 24f));
    p = p.fma(r, FloatVector.broadcast(VectorMemory.FLOATS, 1 / 6f));
    p = p.fma(r, FloatVector.broadcast(VectorMemory.FLOATS, 1 / 2f));
    p = p.fma(r, FloatVector.broadcast(VectorMemory.FLOATS, 1f));
    p = p.fma(r, FloatVector.broadcast(VectorMemory.FLOATS, 1f));
    FloatVector result =
        p.reinterpretAsInts()
            .add(shifted.reinterpretAsInts().lanewise(VectorOperators.LSHL, 23))
            .reinterpretAsFloats();
    VectorMask<Float> tiny = x.compare(VectorOperators.LT, SMALLEST);
    return result.blend(0f, tiny);
  }
}
