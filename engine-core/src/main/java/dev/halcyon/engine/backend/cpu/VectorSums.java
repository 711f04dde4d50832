package dev.halcyon.engine.backend.cpu;

import jdk.incubator.vector.FloatVector;

/**
 * Sums a vector's lanes in a fixed tree. The vector module's own reduction leaves the order open:
 * the interpreter and compiled code differ in it, so the same request would give different bits
 * over time.
 */
final class VectorSums {

  private static final int LANES = VectorMemory.FLOATS.length();

  /** Where in a caller's array the lanes are spread out; what lies before is the caller's. */
  static final int SPILL = 16;

  /** How long that array must be. */
  static final int ARRAY = SPILL + LANES;

  private VectorSums() {}

  /**
   * @param t at least {@link #ARRAY} elements, overwritten from {@link #SPILL} on
   */
  static float sum(FloatVector v, float[] t) {
    v.intoArray(t, SPILL);
    int half = LANES / 2;
    for (; half > 4; half /= 2) {
      for (int i = SPILL; i < SPILL + half; i++) {
        t[i] += t[i + half];
      }
    }
    if (half == 4) {
      return ((t[SPILL] + t[SPILL + 4]) + (t[SPILL + 2] + t[SPILL + 6]))
          + ((t[SPILL + 1] + t[SPILL + 5]) + (t[SPILL + 3] + t[SPILL + 7]));
    }
    return LANES == 4
        ? (t[SPILL] + t[SPILL + 2]) + (t[SPILL + 1] + t[SPILL + 3])
        : t[SPILL] + t[SPILL + 1];
  }
}
