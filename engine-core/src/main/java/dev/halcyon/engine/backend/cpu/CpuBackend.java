package dev.halcyon.engine.backend.cpu;

import static dev.halcyon.engine.backend.cpu.CpuBuffer.floats;
import static dev.halcyon.engine.backend.cpu.CpuBuffer.requireApart;

import dev.halcyon.engine.backend.Activation;
import dev.halcyon.engine.backend.AttentionSpec;
import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
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
import dev.halcyon.engine.logits.HostBuffer;
import dev.halcyon.engine.logits.LogitsType;
import dev.halcyon.engine.logits.PromptLogprobs;
import dev.halcyon.engine.sampling.SampledToken;
import dev.halcyon.engine.sampling.SamplingRow;
import java.nio.FloatBuffer;
import java.util.List;

/**
 * The CPU backend: checks arguments and hands them to the operation's own class. Every operation is
 * complete when it returns.
 */
final class CpuBackend implements Backend {

  private final CpuMemory memory;
  private final CpuHostMemory hostMemory;
  private final Kernels kernels;
  private final WorkerPool pool;
  private final Scratch[] scratch;
  private final NormOps norms;
  private final RowOps rowOps;
  private final LinearOp linear;
  private final RopeOp rope;
  private final AttentionOp attention;
  private final SampleOp sampling;
  private final LogitsOps logits;

  /**
   * @param blas null to do without
   */
  CpuBackend(BackendOptions options, Kernels kernels, Blas blas) {
    this.memory = new CpuMemory(options.memoryBytes());
    this.hostMemory = new CpuHostMemory(options.hostMemoryBytes());
    this.kernels = kernels;
    this.pool = new WorkerPool(options.threads());
    this.scratch = new Scratch[options.threads()];
    for (int i = 0; i < scratch.length; i++) {
      scratch[i] = new Scratch();
    }
    norms = new NormOps(pool, scratch, kernels);
    rowOps = new RowOps(pool, scratch, kernels);
    linear = new LinearOp(pool, scratch, kernels, blas);
    rope = new RopeOp(pool, scratch);
    attention = new AttentionOp(pool, scratch, kernels);
    sampling = new SampleOp(pool, scratch);
    logits = new LogitsOps(pool, scratch, kernels);
  }

  @Override
  public String name() {
    return CpuBackendProvider.NAME;
  }

  @Override
  public CpuMemory memory() {
    return memory;
  }

  @Override
  public CpuHostMemory hostMemory() {
    return hostMemory;
  }

  @Override
  public DType activationType() {
    return DType.F32;
  }

  @Override
  public Matrix load(List<HostTensor> parts) {
    return CpuMatrix.load(parts, kernels);
  }

  @Override
  public RopeTable loadRope(
      int positions, int rotaryDim, RopeLayout layout, FloatBuffer cos, FloatBuffer sin) {
    return new CpuRopeTable(positions, rotaryDim, layout, cos, sin);
  }

  @Override
  public KvStorage allocateKv(KvShape shape) {
    return new CpuKvStorage(shape, memory, pool);
  }

  @Override
  public DeviceBatch upload(Batch batch) {
    return new CpuBatch(batch);
  }

  @Override
  public void embed(Matrix table, DeviceBatch batch, float scale, DeviceBuffer out) {
    Batch rows = CpuBatch.of(batch).batch();
    CpuMatrix matrix = CpuMatrix.of(table, "table");
    rowOps.embed(matrix, rows, scale, floats(out, elements(rows.rows(), table.cols()), "out"));
  }

  @Override
  public void rmsNorm(
      DeviceBuffer x, Matrix weight, float weightOffset, float eps, int rows, DeviceBuffer out) {
    long size = elements(rows, weight.cols());
    norms.rmsNorm(
        floats(x, size, "x"),
        CpuMatrix.vector(weight, weight.cols(), "weight"),
        weightOffset,
        eps,
        rows,
        floats(out, size, "out"));
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
    long size = elements(rows, weight.cols());
    norms.addRmsNorm(
        floats(residual, size, "residual"),
        floats(delta, size, "delta"),
        CpuMatrix.vector(weight, weight.cols(), "weight"),
        weightOffset,
        eps,
        rows,
        floats(out, size, "out"));
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
    if (firstCol < 0 || heads < 0 || firstCol + (long) heads * weight.cols() > rowCols) {
      throw new IllegalArgumentException(
          heads + " heads from column " + firstCol + " don't fit rows of " + rowCols);
    }
    norms.rmsNormHeads(
        floats(x, elements(rows, rowCols), "x"),
        rowCols,
        firstCol,
        heads,
        CpuMatrix.vector(weight, weight.cols(), "weight"),
        weightOffset,
        eps,
        rows);
  }

  @Override
  public void layerNorm(DeviceBuffer x, Matrix weight, float eps, int rows, DeviceBuffer out) {
    long size = elements(rows, weight.cols());
    norms.layerNorm(
        floats(x, size, "x"),
        CpuMatrix.vector(weight, weight.cols(), "weight"),
        eps,
        rows,
        floats(out, size, "out"));
  }

  @Override
  public void add(DeviceBuffer residual, DeviceBuffer delta, int rows, int cols) {
    long size = elements(rows, cols);
    rowOps.add(floats(residual, size, "residual"), floats(delta, size, "delta"), rows, cols);
  }

  @Override
  public void linear(DeviceBuffer x, int rows, Matrix weight, Matrix bias, DeviceBuffer out) {
    long inputs = elements(rows, weight.cols());
    long outputs = elements(rows, weight.rows());
    requireApart(x, inputs * Float.BYTES, "x", out, outputs * Float.BYTES);
    linear.run(
        floats(x, inputs, "x"),
        rows,
        CpuMatrix.of(weight, "weight"),
        bias == null ? null : CpuMatrix.vector(bias, weight.rows(), "bias"),
        floats(out, outputs, "out"));
  }

  @Override
  public void ropeAndWriteKv(
      DeviceBatch batch,
      DeviceBuffer qkv,
      AttentionSpec spec,
      RopeTable rope,
      KvStorage kv,
      int layer) {
    CpuBatch rows = CpuBatch.of(batch);
    CpuKvStorage cache = cache(kv, spec, layer);
    if (rope != null && (!(rope instanceof CpuRopeTable) || rope.rotaryDim() > spec.headDim())) {
      throw new IllegalArgumentException("rope is no CPU table for heads of " + spec.headDim());
    }
    this.rope.run(
        rows,
        floats(qkv, elements(rows.batch().rows(), spec.packedCols()), "qkv"),
        spec,
        (CpuRopeTable) rope,
        cache,
        layer);
  }

  @Override
  public void attention(
      DeviceBatch batch,
      DeviceBuffer qkv,
      AttentionSpec spec,
      KvStorage kv,
      int layer,
      DeviceBuffer out) {
    CpuBatch rows = CpuBatch.of(batch);
    int count = rows.batch().rows();
    long inputs = elements(count, spec.packedCols());
    long outputs = elements(count, spec.queryHeads() * spec.headDim());
    requireApart(qkv, inputs * Float.BYTES, "qkv", out, outputs * Float.BYTES);
    attention.run(
        rows,
        floats(qkv, inputs, "qkv"),
        spec,
        cache(kv, spec, layer),
        layer,
        floats(out, outputs, "out"));
  }

  private static CpuKvStorage cache(KvStorage kv, AttentionSpec spec, int layer) {
    CpuKvStorage cache = CpuKvStorage.of(kv);
    spec.requireFits(cache.shape(), layer);
    return cache;
  }

  @Override
  public void gatedActivation(
      DeviceBuffer gateUp, int rows, int inner, Activation activation, DeviceBuffer out) {
    long outputs = elements(rows, inner);
    requireApart(gateUp, 2 * outputs * Float.BYTES, "gateUp", out, outputs * Float.BYTES);
    rowOps.gatedActivation(
        floats(gateUp, elements(rows, Math.multiplyExact(2, inner)), "gateUp"),
        rows,
        inner,
        activation,
        floats(out, outputs, "out"));
  }

  @Override
  public void gatherRows(DeviceBuffer x, int cols, int[] indices, int count, DeviceBuffer out) {
    long outputs = elements(count, cols);
    requireApart(x, x.bytes(), "x", out, outputs * Float.BYTES);
    rowOps.gather(floats(x, 0, "x"), cols, indices, count, floats(out, outputs, "out"));
  }

  @Override
  public void transformLogits(DeviceBuffer logits, int rows, int cols, float scale, float softcap) {
    rowOps.transformLogits(
        floats(logits, elements(rows, cols), "logits"), rows, cols, scale, softcap);
  }

  @Override
  public List<SampledToken> sample(DeviceBuffer logits, int vocabSize, List<SamplingRow> entries) {
    int rows = 0;
    for (SamplingRow entry : entries) {
      rows = Math.max(rows, entry.row() + 1);
      if (entry.row() < 0) {
        throw new IllegalArgumentException("A sampling entry has the row " + entry.row());
      }
    }
    return sampling.run(floats(logits, elements(rows, vocabSize), "logits"), vocabSize, entries);
  }

  @Override
  public void read(DeviceBuffer from, long firstElement, int count, float[] to, int toIndex) {
    logits.read(from, LogitsType.F32, firstElement, count, to, toIndex);
  }

  @Override
  public void toFloat32(DeviceBuffer from, LogitsType type, long count, DeviceBuffer to) {
    logits.toFloat32(from, type, count, to);
  }

  @Override
  public void copy(DeviceBuffer from, DeviceBuffer to, long bytes) {
    logits.copy(from, to, bytes);
  }

  @Override
  public void download(DeviceBuffer from, long count, HostBuffer to, long toFirst) {
    logits.download(from, count, to, toFirst);
  }

  @Override
  public void write(float[] from, int fromIndex, int count, DeviceBuffer to, long first) {
    logits.write(from, fromIndex, count, to, first);
  }

  @Override
  public void read(
      DeviceBuffer from, LogitsType type, long first, int count, float[] to, int toIndex) {
    logits.read(from, type, first, count, to, toIndex);
  }

  @Override
  public void joinShards(
      DeviceBuffer shards, LogitsType type, int ranks, int rows, int cols, DeviceBuffer out) {
    logits.joinShards(shards, type, ranks, rows, cols, out);
  }

  @Override
  public void reduce(
      DeviceBuffer from, LogitsType type, int rows, int cols, PromptLogprobs out, int firstEntry) {
    logits.reduce(from, type, rows, cols, out, firstEntry);
  }

  @Override
  public void awaitReductions() {
    // Every operation is complete when it returns.
  }

  @Override
  public boolean isWorker(Thread thread) {
    return pool.owns(thread);
  }

  @Override
  public void synchronize() {
    // Every operation is complete when it returns.
  }

  @Override
  public void close() {
    pool.close();
    for (Scratch own : scratch) {
      own.close();
    }
  }

  /** Elements of rows of cols; negative numbers of rows are refused here. */
  private static long elements(int rows, int cols) {
    if (rows < 0 || cols < 0) {
      throw new IllegalArgumentException("rows " + rows + ", cols " + cols);
    }
    return (long) rows * cols;
  }
}
