package dev.halcyon.engine.backend.cpu;

import jdk.incubator.vector.FloatVector;

/**
 * Sums of a vector's lanes and of arrays, in a fixed tree. The vector module's own reduction leaves
 * the order open: the interpreter and compiled code differ in it, so the same request would give
 * different bits over time.
 */
final class VectorSums {

  private static final int LANES = VectorMemory.FLOATS.length();

  /** Where in a caller's array the lanes are spread out; what lies before is the caller's. */
  static final int SPILL = 16;

  /** How long that array must be. */
  static final int ARRAY = SPILL + LANES;

  /** Vectors that {@link #sum(float[], int, int)} adds at once. */
  private static final int UNROLLED = 8;

  private VectorSums() {}

  /**
   * The sum of {@code count} elements from {@code from} on: each lane of eight vectors in order,
   * then all of them in a tree, then the rest. Written out, and long enough to be compiled alone,
   * for the reason that {@link DotTile} gives.
   */
  static float sum(float[] x, int from, int count) {
    FloatVector a0 = FloatVector.zero(VectorMemory.FLOATS);
    FloatVector a1 = a0;
    FloatVector a2 = a0;
    FloatVector a3 = a0;
    FloatVector a4 = a0;
    FloatVector a5 = a0;
    FloatVector a6 = a0;
    FloatVector a7 = a0;
    int end = from + count;
    int i = from;
    for (; i + UNROLLED * LANES <= end; i += UNROLLED * LANES) {
      a0 = a0.add(FloatVector.fromArray(VectorMemory.FLOATS, x, i));
      a1 = a1.add(FloatVector.fromArray(VectorMemory.FLOATS, x, i + LANES));
      a2 = a2.add(FloatVector.fromArray(VectorMemory.FLOATS, x, i + 2 * LANES));
      a3 = a3.add(FloatVector.fromArray(VectorMemory.FLOATS, x, i + 3 * LANES));
      a4 = a4.add(FloatVector.fromArray(VectorMemory.FLOATS, x, i + 4 * LANES));
      a5 = a5.add(FloatVector.fromArray(VectorMemory.FLOATS, x, i + 5 * LANES));
      a6 = a6.add(FloatVector.fromArray(VectorMemory.FLOATS, x, i + 6 * LANES));
      a7 = a7.add(FloatVector.fromArray(VectorMemory.FLOATS, x, i + 7 * LANES));
    }
    for (; i + LANES <= end; i += LANES) {
      a0 = a0.add(FloatVector.fromArray(VectorMemory.FLOATS, x, i));
    }
    FloatVector even = a0.add(a4).add(a2.add(a6));
    FloatVector odd = a1.add(a5).add(a3.add(a7));
    float tail = 0;
    for (; i < end; i++) {
      tail += x[i];
    }
    return sum(even.add(odd), new float[ARRAY]) + tail;
  }

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
