package dev.halcyon.engine.backend.cpu;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * The two products of attention. Both keep what they sum in registers, for several queries at a
 * time, and run along the sum one term after the other, so each result is the same whatever is
 * computed beside it.
 */
final class VectorAttention {

  private static final VectorSpecies<Float> FLOATS = VectorMemory.FLOATS;
  private static final int LANES = FLOATS.length();

  private VectorAttention() {}

  static void scores(
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
    for (int j = 0; j < keys; j += LANES) {
      for (int i = 0; i < queries; i += 8) {
        eightQueries(q, i, queries - 1, dim, k, k0 + j, kStride, s, s0 + j, sStride);
      }
    }
  }

  /** Queries first to first + 7, of which the last one there is stands in for missing ones. */
  private static void eightQueries(
      float[] q,
      int first,
      int last,
      int dim,
      float[] k,
      int k0,
      int kStride,
      float[] s,
      int s0,
      int sStride) {
    int i0 = Math.min(first + 0, last);
    int i1 = Math.min(first + 1, last);
    int i2 = Math.min(first + 2, last);
    int i3 = Math.min(first + 3, last);
    int i4 = Math.min(first + 4, last);
    int i5 = Math.min(first + 5, last);
    int i6 = Math.min(first + 6, last);
    int i7 = Math.min(first + 7, last);
    int q0 = i0 * dim;
    int q1 = i1 * dim;
    int q2 = i2 * dim;
    int q3 = i3 * dim;
    int q4 = i4 * dim;
    int q5 = i5 * dim;
    int q6 = i6 * dim;
    int q7 = i7 * dim;
    FloatVector a0 = FloatVector.zero(FLOATS);
    FloatVector a1 = a0;
    FloatVector a2 = a0;
    FloatVector a3 = a0;
    FloatVector a4 = a0;
    FloatVector a5 = a0;
    FloatVector a6 = a0;
    FloatVector a7 = a0;
    for (int d = 0; d < dim; d++) {
      FloatVector key = FloatVector.fromArray(FLOATS, k, k0 + d * kStride);
      a0 = key.fma(FloatVector.broadcast(FLOATS, q[q0 + d]), a0);
      a1 = key.fma(FloatVector.broadcast(FLOATS, q[q1 + d]), a1);
      a2 = key.fma(FloatVector.broadcast(FLOATS, q[q2 + d]), a2);
      a3 = key.fma(FloatVector.broadcast(FLOATS, q[q3 + d]), a3);
      a4 = key.fma(FloatVector.broadcast(FLOATS, q[q4 + d]), a4);
      a5 = key.fma(FloatVector.broadcast(FLOATS, q[q5 + d]), a5);
      a6 = key.fma(FloatVector.broadcast(FLOATS, q[q6 + d]), a6);
      a7 = key.fma(FloatVector.broadcast(FLOATS, q[q7 + d]), a7);
    }
    a0.intoArray(s, s0 + i0 * sStride);
    a1.intoArray(s, s0 + i1 * sStride);
    a2.intoArray(s, s0 + i2 * sStride);
    a3.intoArray(s, s0 + i3 * sStride);
    a4.intoArray(s, s0 + i4 * sStride);
    a5.intoArray(s, s0 + i5 * sStride);
    a6.intoArray(s, s0 + i6 * sStride);
    a7.intoArray(s, s0 + i7 * sStride);
  }

  static void weightedSum(
      float[] p,
      int pStride,
      int queries,
      float[] v,
      int from,
      int to,
      int dim,
      float[] acc,
      int accStride) {
    for (int d = 0; d < dim; d += 2 * LANES) {
      for (int i = 0; i < queries; i += 4) {
        fourQueries(p, pStride, i, queries - 1, v, from, to, dim, d, acc, accStride);
      }
    }
  }

  /** Queries first to first + 3, of which the last one there is stands in for missing ones. */
  private static void fourQueries(
      float[] p,
      int pStride,
      int first,
      int last,
      float[] v,
      int from,
      int to,
      int dim,
      int d,
      float[] acc,
      int accStride) {
    int i0 = Math.min(first + 0, last);
    int i1 = Math.min(first + 1, last);
    int i2 = Math.min(first + 2, last);
    int i3 = Math.min(first + 3, last);
    int p0 = i0 * pStride;
    int p1 = i1 * pStride;
    int p2 = i2 * pStride;
    int p3 = i3 * pStride;
    int at0 = i0 * accStride + d;
    int at1 = i1 * accStride + d;
    int at2 = i2 * accStride + d;
    int at3 = i3 * accStride + d;
    FloatVector a0 = FloatVector.fromArray(FLOATS, acc, at0);
    FloatVector b0 = FloatVector.fromArray(FLOATS, acc, at0 + LANES);
    FloatVector a1 = FloatVector.fromArray(FLOATS, acc, at1);
    FloatVector b1 = FloatVector.fromArray(FLOATS, acc, at1 + LANES);
    FloatVector a2 = FloatVector.fromArray(FLOATS, acc, at2);
    FloatVector b2 = FloatVector.fromArray(FLOATS, acc, at2 + LANES);
    FloatVector a3 = FloatVector.fromArray(FLOATS, acc, at3);
    FloatVector b3 = FloatVector.fromArray(FLOATS, acc, at3 + LANES);
    for (int j = from; j < to; j++) {
      FloatVector v0 = FloatVector.fromArray(FLOATS, v, j * dim + d);
      FloatVector v1 = FloatVector.fromArray(FLOATS, v, j * dim + d + LANES);
      FloatVector w0 = FloatVector.broadcast(FLOATS, p[p0 + j]);
      a0 = v0.fma(w0, a0);
      b0 = v1.fma(w0, b0);
      FloatVector w1 = FloatVector.broadcast(FLOATS, p[p1 + j]);
      a1 = v0.fma(w1, a1);
      b1 = v1.fma(w1, b1);
      FloatVector w2 = FloatVector.broadcast(FLOATS, p[p2 + j]);
      a2 = v0.fma(w2, a2);
      b2 = v1.fma(w2, b2);
      FloatVector w3 = FloatVector.broadcast(FLOATS, p[p3 + j]);
      a3 = v0.fma(w3, a3);
      b3 = v1.fma(w3, b3);
    }
    a0.intoArray(acc, at0);
    b0.intoArray(acc, at0 + LANES);
    a1.intoArray(acc, at1);
    b1.intoArray(acc, at1 + LANES);
    a2.intoArray(acc, at2);
    b2.intoArray(acc, at2 + LANES);
    a3.intoArray(acc, at3);
    b3.intoArray(acc, at3 + LANES);
  }
}
