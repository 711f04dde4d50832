package dev.halcyon.engine.model;

import dev.halcyon.engine.backend.Activation;
import dev.halcyon.engine.backend.AttentionSpec;
import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.DeviceBatch;
import dev.halcyon.engine.backend.HostTensor;
import dev.halcyon.engine.backend.KvShape;
import dev.halcyon.engine.backend.KvStorage;
import dev.halcyon.engine.backend.Matrix;
import dev.halcyon.engine.backend.RopeLayout;
import dev.halcyon.engine.backend.RopeTable;
import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.logits.DeviceMemory;
import dev.halcyon.engine.logits.HostBuffer;
import dev.halcyon.engine.logits.HostMemory;
import dev.halcyon.engine.logits.LogitsType;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import dev.halcyon.engine.logits.PromptLogprobs;
import dev.halcyon.engine.sampling.SampledToken;
import dev.halcyon.engine.sampling.SamplingRow;
import java.nio.FloatBuffer;
import java.util.List;

/**
 * A backend that can hold things, weights included, but not compute. It counts what is held, and
 * its memory runs out at the allocation it is told to.
 */
final class FailingBackend implements Backend, DeviceMemory {

  private final int failAt;
  private final DType activationType;
  private int allocations;
  private long used;
  private long peak;
  private int closedTwice;
  private float embeddingScale;

  /**
   * @param failAt which allocation fails, from 0; -1 for none
   */
  FailingBackend(int failAt) {
    this(failAt, DType.F32);
  }

  FailingBackend(int failAt, DType activationType) {
    this.failAt = failAt;
    this.activationType = activationType;
  }

  int allocations() {
    return allocations;
  }

  /** The factor of the last embedding. */
  float embeddingScale() {
    return embeddingScale;
  }

  int closedTwice() {
    return closedTwice;
  }

  /** A piece of memory, whatever it serves as. */
  private final class Held implements DeviceBuffer, Matrix, RopeTable {

    private final long bytes;
    private final int rows;
    private final int cols;
    private boolean closed;

    Held(long bytes, int rows, int cols) {
      this.bytes = bytes;
      this.rows = rows;
      this.cols = cols;
    }

    @Override
    public long bytes() {
      return bytes;
    }

    @Override
    public DeviceBuffer slice(long offset, long bytes) {
      throw noCompute();
    }

    @Override
    public int rows() {
      return rows;
    }

    @Override
    public int cols() {
      return cols;
    }

    @Override
    public DType type() {
      return DType.F32;
    }

    @Override
    public int positions() {
      return rows;
    }

    @Override
    public int rotaryDim() {
      return cols;
    }

    @Override
    public void close() {
      if (closed) {
        closedTwice++;
      } else {
        closed = true;
        used -= bytes;
      }
    }
  }

  private Held hold(String purpose, long bytes, int rows, int cols) {
    if (allocations++ == failAt) {
      throw new OutOfDeviceMemoryException(purpose, bytes, 0);
    }
    used += bytes;
    peak = Math.max(peak, used);
    return new Held(bytes, rows, cols);
  }

  @Override
  public Matrix load(List<HostTensor> parts) {
    HostTensor first = parts.get(0);
    long bytes = parts.stream().mapToLong(HostTensor::bytes).sum();
    int rows = parts.stream().mapToInt(HostTensor::rows).sum();
    return hold(first.name(), bytes, rows, first.cols());
  }

  @Override
  public RopeTable loadRope(
      int positions, int rotaryDim, RopeLayout layout, FloatBuffer cos, FloatBuffer sin) {
    return hold("rope", 4L * positions * rotaryDim, positions, rotaryDim);
  }

  @Override
  public DeviceBuffer allocate(long bytes, String purpose) {
    return hold(purpose, bytes, 1, 1);
  }

  @Override
  public long capacity() {
    return Long.MAX_VALUE;
  }

  @Override
  public long peak() {
    return peak;
  }

  @Override
  public long used() {
    return used;
  }

  @Override
  public long maxBufferBytes() {
    return Long.MAX_VALUE;
  }

  @Override
  public DeviceMemory memory() {
    return this;
  }

  @Override
  public String name() {
    return "failing";
  }

  @Override
  public DType activationType() {
    return activationType;
  }

  @Override
  public void close() {}

  private static UnsupportedOperationException noCompute() {
    return new UnsupportedOperationException("This backend can't compute");
  }

  @Override
  public KvStorage allocateKv(KvShape shape) {
    throw noCompute();
  }

  @Override
  public DeviceBatch upload(Batch batch) {
    throw noCompute();
  }

  @Override
  public void embed(Matrix table, DeviceBatch batch, float scale, DeviceBuffer out) {
    embeddingScale = scale;
    throw noCompute();
  }

  @Override
  public void rmsNorm(
      DeviceBuffer x, Matrix weight, float weightOffset, float eps, int rows, DeviceBuffer out) {
    throw noCompute();
  }

  @Override
  public void addRmsNorm(
      DeviceBuffer residual,
      DeviceBuffer delta,
      Matrix weight,
      float weightOffset,
      float eps,
      int rows,
      DeviceBuffer out) {
    throw noCompute();
  }

  @Override
  public void rmsNormHeads(
      DeviceBuffer x,
      int rowCols,
      int firstCol,
      int heads,
      Matrix weight,
      float weightOffset,
      float eps,
      int rows) {
    throw noCompute();
  }

  @Override
  public void layerNorm(DeviceBuffer x, Matrix weight, float eps, int rows, DeviceBuffer out) {
    throw noCompute();
  }

  @Override
  public void add(DeviceBuffer residual, DeviceBuffer delta, int rows, int cols) {
    throw noCompute();
  }

  @Override
  public void linear(DeviceBuffer x, int rows, Matrix weight, Matrix bias, DeviceBuffer out) {
    throw noCompute();
  }

  @Override
  public void ropeAndWriteKv(
      DeviceBatch batch,
      DeviceBuffer qkv,
      AttentionSpec spec,
      RopeTable rope,
      KvStorage kv,
      int layer) {
    throw noCompute();
  }

  @Override
  public void attention(
      DeviceBatch batch,
      DeviceBuffer qkv,
      AttentionSpec spec,
      KvStorage kv,
      int layer,
      DeviceBuffer out) {
    throw noCompute();
  }

  @Override
  public void gatedActivation(
      DeviceBuffer gateUp, int rows, int inner, Activation activation, DeviceBuffer out) {
    throw noCompute();
  }

  @Override
  public void gatherRows(DeviceBuffer x, int cols, int[] indices, int count, DeviceBuffer out) {
    throw noCompute();
  }

  @Override
  public void transformLogits(DeviceBuffer logits, int rows, int cols, float scale, float softcap) {
    throw noCompute();
  }

  @Override
  public List<SampledToken> sample(DeviceBuffer logits, int vocabSize, List<SamplingRow> entries) {
    throw noCompute();
  }

  @Override
  public void read(DeviceBuffer from, long firstElement, int count, float[] to, int toIndex) {
    throw noCompute();
  }

  @Override
  public HostMemory hostMemory() {
    throw noCompute();
  }

  @Override
  public void toFloat32(DeviceBuffer from, LogitsType type, long count, DeviceBuffer to) {
    throw noCompute();
  }

  @Override
  public void copy(DeviceBuffer from, DeviceBuffer to, long bytes) {
    throw noCompute();
  }

  @Override
  public void download(DeviceBuffer from, long count, HostBuffer to, long toFirst) {
    throw noCompute();
  }

  @Override
  public void write(float[] from, int fromIndex, int count, DeviceBuffer to, long first) {
    throw noCompute();
  }

  @Override
  public void read(
      DeviceBuffer from, LogitsType type, long first, int count, float[] to, int toIndex) {
    throw noCompute();
  }

  @Override
  public void joinShards(
      DeviceBuffer shards, LogitsType type, int ranks, int rows, int cols, DeviceBuffer out) {
    throw noCompute();
  }

  @Override
  public void reduce(
      DeviceBuffer logits,
      LogitsType type,
      int rows,
      int cols,
      PromptLogprobs out,
      int firstEntry) {
    throw noCompute();
  }

  @Override
  public void awaitReductions() {
    throw noCompute();
  }

  @Override
  public void synchronize() {}
}
