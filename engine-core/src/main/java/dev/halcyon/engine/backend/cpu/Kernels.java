package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.DType;
import java.nio.ByteBuffer;

/**
 * The inner loops that are worth vectorising, over heap arrays (which workers copy rows and tiles
 * to) and, for weights alone, straight from where they lie. {@link KernelChoice} picks the
 * implementation.
 *
 * <p>Every result is a fixed function of the numbers it is made of: sums run in an order that
 * depends on the number of elements alone, never on how many rows or queries are computed together.
 */
interface Kernels {

  /** What this is, for the log. */
  String description();

  /** Floats in a vector; tiles that are laid out in multiples of it are read without copying. */
  int lanes();

  /** A handle on weights for {@link #dot}; the buffer's position 0 to its limit. */
  Object view(ByteBuffer weights);

  /**
   * Arranges a row of {@code cols} activations at {@code x[from]} as {@link #dot} with weights of
   * this type reads it.
   */
  void pack(DType weights, float[] x, int from, int cols, float[] to, int toIndex);

  /**
   * Products of weight rows with rows of activations: for b below batch and r below rows, {@code
   * y[b * rows + r] = sum over i of w[row + r, i] * x[b, i]}.
   *
   * @param x [batch, w.cols()] activations as {@link #pack} arranged them
   */
  void dot(Slab w, int row, int rows, float[] x, int batch, float[] y, Scratch scratch);

  /** Widens {@code count} elements of a 16-bit type. */
  void widen(DType type, short[] from, int count, float[] to);

  float sum(float[] x, int from, int count);

  float sumOfSquares(float[] x, int from, int count);

  /**
   * x[i] = exp(x[i] - max) for i from {@code from}; minus infinity becomes 0.
   *
   * @param count a multiple of {@link #lanes()}
   * @return the sum of the results
   */
  float expAndSum(float[] x, int from, int count, float max);

  /** The largest of the first {@code count} elements, at least one; none is NaN. */
  float max(float[] x, int count);

  /**
   * The sum of exp(x[i] - max) over the first {@code count} elements, which stay as they are; minus
   * infinity adds 0. Runs of a few hundred elements are added in float32 at most, these in double
   * precision, so that the result is within about 1e-6 of itself however long x is.
   */
  double sumOfExp(float[] x, int count, float max);

  /** x[i] = x[i] * sigmoid(x[i]). */
  void silu(float[] x, int count);

  /** x[i] = x[i] * Phi(x[i]) in its tanh form. */
  void geluTanh(float[] x, int count);

  /**
   * Scores of queries with keys: {@code s[s0 + i * sStride + j] = sum over d of q[i * dim + d] *
   * k[k0 + d * kStride + j]}. Keys are stored dimension by dimension. More than {@code keys} scores
   * of a query may be written and more keys read, up to the next multiple of {@link #lanes()}.
   */
  void scores(
      float[] q,
      int queries,
      int dim,
      float[] k,
      int k0,
      int kStride,
      int keys,
      float[] s,
      int s0,
      int sStride);

  /**
   * {@code acc[i * accStride + d] += sum over j of p[i * pStride + j] * v[j * dim + d]} for j from
   * {@code from} to {@code to}, in this order. Elements past {@code dim} of a row of acc may be
   * written, up to the next multiple of 2 * {@link #lanes()}, and as many read past v's end.
   */
  void weightedSum(
      float[] p,
      int pStride,
      int queries,
      float[] v,
      int from,
      int to,
      int dim,
      float[] acc,
      int accStride);
}
