package dev.halcyon.engine.backend;

import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.logits.DeviceMemory;
import dev.halcyon.engine.logits.LogitsDevice;
import dev.halcyon.engine.sampling.SampledToken;
import dev.halcyon.engine.sampling.SamplingRow;
import java.nio.FloatBuffer;
import java.util.List;
import java.util.function.Consumer;

/**
 * The fused operations that a decoder is composed of, over opaque device buffers. Not a tensor
 * algebra: an operation exists because a model needs it.
 *
 * <p>Buffers of activations hold rows of {@link #activationType()} elements, row-major and dense
 * from their start; every operation takes the number of rows that count, and touches no others.
 * Operations take effect in the order in which they are called; {@link #synchronize()} waits for
 * all of them. One thread, the owner, calls a backend, but for what {@link LogitsDevice} allows to
 * others. A buffer that an operation takes may be a part of another. Products accumulate in
 * float32, and a row's result does not depend on the other rows of the batch beyond rounding.
 */
public interface Backend extends LogitsDevice, AutoCloseable {

  /** A short name for logs and metrics, such as "cpu". */
  String name();

  /** Where buffers come from. */
  @Override
  DeviceMemory memory();

  /** The element type of activation buffers and of the KV cache. */
  DType activationType();

  /** The bytes of {@code rows} activation rows of {@code cols} elements. */
  default long activationBytes(int rows, int cols) {
    return (long) rows * cols * activationType().bytes();
  }

  /**
   * Makes weights resident, in their stored type, as one matrix: the rows of the parts in order.
   * All parts have the same number of columns; vectors are joined to one longer vector (one row).
   */
  Matrix load(List<HostTensor> parts);

  /**
   * Makes rotation tables resident: {@code cos} and {@code sin} hold [positions, rotaryDim / 2].
   *
   * @param layout which elements of a head are pairs
   */
  RopeTable loadRope(
      int positions, int rotaryDim, RopeLayout layout, FloatBuffer cos, FloatBuffer sin);

  /** Allocates a zeroed KV cache. */
  KvStorage allocateKv(KvShape shape);

  /**
   * Makes the batch of the next step known to the device, in place of the one before, which no
   * operation may take any more. The arrays may be reused after the step.
   */
  DeviceBatch upload(Batch batch);

  /**
   * Runs the body of a step: operations on buffers that stay where they are from step to step. A
   * backend may record them, and repeat them in a later step of as many rows instead of calling the
   * body again; or add rows of padding, so that steps of several sizes can share what is recorded.
   * Results don't depend on any of that.
   *
   * @param batch what {@link #upload} returned last
   * @param body calls operations that queue work and nothing else: none that returns results or
   *     allocates. Called with a batch whose first rows are those of {@code batch}; the same object
   *     in every step
   */
  default void runStep(DeviceBatch batch, Consumer<DeviceBatch> body) {
    body.accept(batch);
  }

  /**
   * Prepares for steps up to some limits, before the first of them. A backend that gains from it
   * runs steps of its own choice; what the KV cache holds does not matter yet. By default nothing
   * is done.
   *
   * @param step computes a batch as a step does: upload, {@link #runStep}, head and sampling
   * @throws dev.halcyon.engine.logits.OutOfDeviceMemoryException if there is no room for such steps
   */
  default void warmUp(StepLimits limits, Consumer<Batch> step) {}

  /** out[row] = table[tokenIds[row]] * scale. */
  void embed(Matrix table, DeviceBatch batch, float scale, DeviceBuffer out);

  /**
   * out[row] = x[row] / sqrt(mean(x[row]^2) + eps) * (weight + weightOffset). {@code out} may be
   * {@code x}.
   *
   * @param weightOffset 0, or 1 for families that store the weight less one
   */
  void rmsNorm(
      DeviceBuffer x, Matrix weight, float weightOffset, float eps, int rows, DeviceBuffer out);

  /** residual[row] += delta[row], then out[row] = rmsNorm(residual[row]). */
  void addRmsNorm(
      DeviceBuffer residual,
      DeviceBuffer delta,
      Matrix weight,
      float weightOffset,
      float eps,
      int rows,
      DeviceBuffer out);

  /**
   * Normalises heads inside packed rows, in place: {@code heads} runs of weight.cols() elements
   * that begin at element {@code firstCol} of each row of {@code rowCols} elements.
   */
  void rmsNormHeads(
      DeviceBuffer x,
      int rowCols,
      int firstCol,
      int heads,
      Matrix weight,
      float weightOffset,
      float eps,
      int rows);

  /**
   * out[row] = (x[row] - mean) / sqrt(variance + eps) * weight, with the mean and the variance of
   * the row's elements. {@code out} may be {@code x}.
   */
  void layerNorm(DeviceBuffer x, Matrix weight, float eps, int rows, DeviceBuffer out);

  /** residual[row] += delta[row]; rows of {@code cols} elements. */
  void add(DeviceBuffer residual, DeviceBuffer delta, int rows, int cols);

  /** out[row, o] = sum over i of x[row, i] * weight[o, i], plus bias[o] where bias is not null. */
  void linear(DeviceBuffer x, int rows, Matrix weight, Matrix bias, DeviceBuffer out);

  /**
   * Whether {@link #linearTile} and {@link #boundLinear} take these weights. By default no weights
   * are.
   */
  default boolean takesTiles(Matrix weight) {
    return false;
  }

  /** As {@link #linear} without bias, for {@code columns} outputs from {@code firstColumn} on. */
  default void linearTile(
      DeviceBuffer x, int rows, Matrix weight, int firstColumn, int columns, DeviceBuffer out) {
    throw new UnsupportedOperationException(name() + " makes no tiles of " + weight);
  }

  /**
   * Bounds one output of {@link #linear} for each row, see {@link
   * dev.halcyon.engine.logits.TiledHead#bound}.
   *
   * @param columns which one; negative for none
   * @param out [2, rows]
   */
  default void boundLinear(
      DeviceBuffer x, int rows, Matrix weight, int[] columns, DeviceBuffer out) {
    throw new UnsupportedOperationException(name() + " bounds no products with " + weight);
  }

  /**
   * Rotates the queries in place and writes the rotated keys and the values of packed rows to their
   * slots.
   *
   * @param rope null for layers without rotary embedding
   */
  void ropeAndWriteKv(
      DeviceBatch batch,
      DeviceBuffer qkv,
      AttentionSpec spec,
      RopeTable rope,
      KvStorage kv,
      int layer);

  /**
   * Causal attention of each row's rotated queries (in packed rows) over its sequence's blocks: out
   * is [rows, queryHeads * headDim]. A row at position p sees positions max(0, p - slidingWindow +
   * 1) to p.
   */
  void attention(
      DeviceBatch batch,
      DeviceBuffer qkv,
      AttentionSpec spec,
      KvStorage kv,
      int layer,
      DeviceBuffer out);

  /**
   * out[row, i] = activation(gateUp[row, i]) * gateUp[row, inner + i]; gateUp is [rows, 2 * inner].
   */
  void gatedActivation(
      DeviceBuffer gateUp, int rows, int inner, Activation activation, DeviceBuffer out);

  /** out[i] = x[indices[i]] for i below count; rows of {@code cols} elements. */
  void gatherRows(DeviceBuffer x, int cols, int[] indices, int count, DeviceBuffer out);

  /** In place: x *= scale, then x = softcap * tanh(x / softcap) where softcap is not 0. */
  void transformLogits(DeviceBuffer logits, int rows, int cols, float scale, float softcap);

  /**
   * Samples one token for each entry from a row of logits [rows, vocabSize], and what else the
   * entry asks for (logprobs, a copy of its logits). Several entries may read the same row. The
   * row's buffer is not changed. An entry whose logits processor fails gives a result that carries
   * the error; it fails no other.
   */
  List<SampledToken> sample(DeviceBuffer logits, int vocabSize, List<SamplingRow> entries);

  /** Copies activation elements to the host as float32, complete on return. */
  void read(DeviceBuffer from, long firstElement, int count, float[] to, int toIndex);

  /** Whether a thread is one of the backend's own, which an operation may be waiting for. */
  default boolean isWorker(Thread thread) {
    return false;
  }

  /** Waits until everything that was called has taken effect. */
  void synchronize();

  /**
   * Frees what the backend itself holds. Buffers, matrices and caches are closed by their owners
   * first.
   */
  @Override
  void close();
}
