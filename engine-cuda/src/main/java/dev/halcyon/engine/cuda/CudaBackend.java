package dev.halcyon.engine.cuda;

import static dev.halcyon.engine.cuda.CudaBuffer.requireApart;

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
import dev.halcyon.engine.backend.Owned;
import dev.halcyon.engine.backend.RopeLayout;
import dev.halcyon.engine.backend.RopeTable;
import dev.halcyon.engine.backend.StepLimits;
import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.logits.HostBuffer;
import dev.halcyon.engine.logits.LogitsType;
import dev.halcyon.engine.logits.PromptLogprobs;
import dev.halcyon.engine.logits.TileReduction;
import dev.halcyon.engine.sampling.SampledToken;
import dev.halcyon.engine.sampling.SamplingRow;
import java.nio.FloatBuffer;
import java.util.List;
import java.util.function.Consumer;

/**
 * The CUDA backend: checks arguments and hands addresses to the operation's own class. Operations
 * are queued on the compute stream and return before they are done.
 */
final class CudaBackend implements Backend {

  private final DType activations;
  private final boolean tuned;
  private final CudaContext context;
  private final CudaMemory memory;
  private final CudaHostMemory hostMemory;
  private final UploadRing uploads;
  private final WeightLoader weights;
  private final Steps steps;
  private final DeviceScratch rowNumbers;
  private final RowOps rowOps;
  private final NormOps norms;
  private final ConvertOps convert;
  private final TransferOps transfers;
  private final KvImportOp kvImports;
  private final KvExportOp kvExports;
  private final KvCopyOp kvCopies;
  private final Milestones milestones;
  private final LinearOp linear;
  private final RopeOp rope;
  private final AttentionOp attention;
  private final ReduceOp reduce;

  /** Null where activations are float32. */
  private final TileOp tiles;

  private final SampleOp sampling;
  private final Owned owned;
  private int blockSize = Integer.MAX_VALUE;

  private CudaBackend(CudaDevice device, BackendOptions options, CubinCache cache, Owned owned) {
    this.owned = owned;
    activations = options.activationType();
    tuned = !options.deterministic();
    context = new CudaContext(device);
    memory = own(new CudaMemory(context, options.memoryBytes()));
    // The context waits for all work, so it is closed before the pool and after all that is queued.
    own(context);
    hostMemory = own(new CudaHostMemory(device, options.hostMemoryBytes()));
    KernelLibrary library = own(new KernelLibrary(context, activations, cache));
    Launch launch = own(new Launch(context, context.compute()));
    uploads = own(new UploadRing(context));
    steps = own(new Steps(context, memory, uploads, options.graphs()));
    rowNumbers = own(new DeviceScratch(memory, "row numbers"));
    weights = own(new WeightLoader(context, memory, activations, options.threads()));
    rowOps = new RowOps(library, launch, activations);
    norms = new NormOps(library, launch, activations);
    convert = new ConvertOps(library, launch);
    transfers = new TransferOps(context, own(new Readback(context)));
    kvImports = own(new KvImportOp(library, launch, context, memory, uploads));
    kvExports = own(new KvExportOp(library, own(new Launch(context, context.exports())), context));
    kvCopies = own(new KvCopyOp(library, launch, context, memory, uploads));
    milestones = own(new Milestones(context));
    linear = own(new LinearOp(context, memory, activations, rowOps, convert));
    rope = new RopeOp(library, launch, activations);
    attention = own(new AttentionOp(context, memory, library, launch, uploads, activations));
    LogprobOps logprobs = new LogprobOps(library, launch);
    reduce =
        own(
            new ReduceOp(
                new RowReduction(library, launch, device.multiprocessors()), context, memory));
    tiles =
        activations == DType.F32
            ? null
            : own(new TileOp(library, launch, uploads, context, memory));
    sampling = own(new SampleOp(library, launch, logprobs, context, memory, uploads, transfers));
  }

  /**
   * Opens a device.
   *
   * @throws dev.halcyon.engine.EngineException if there is no such device, or it can't be used
   */
  static CudaBackend open(BackendOptions options) {
    return open(options, CubinCache.ofUser());
  }

  /** Opens a device, with compiled kernels kept in {@code cache}. */
  static CudaBackend open(BackendOptions options, CubinCache cache) {
    Owned owned = new Owned();
    try {
      return new CudaBackend(CudaProbe.device(options.deviceIndex()), options, cache, owned);
    } catch (RuntimeException | Error e) {
      owned.closeAfter(e);
      throw e;
    }
  }

  private <T extends AutoCloseable> T own(T part) {
    owned.add(
        () -> {
          try {
            part.close();
          } catch (RuntimeException e) {
            throw e;
          } catch (Exception e) {
            throw new IllegalStateException(e);
          }
        });
    return part;
  }

  @Override
  public String name() {
    return CudaBackendProvider.NAME;
  }

  @Override
  public CudaMemory memory() {
    return memory;
  }

  @Override
  public CudaHostMemory hostMemory() {
    return hostMemory;
  }

  @Override
  public DType activationType() {
    return activations;
  }

  @Override
  public Matrix load(List<HostTensor> parts) {
    context.enter();
    return weights.load(parts);
  }

  @Override
  public RopeTable loadRope(
      int positions, int rotaryDim, RopeLayout layout, FloatBuffer cos, FloatBuffer sin) {
    context.enter();
    return CudaRopeTable.load(memory, uploads, positions, rotaryDim, layout, cos, sin);
  }

  @Override
  public KvStorage allocateKv(KvShape shape) {
    context.enter();
    CudaKvStorage kv =
        new CudaKvStorage(
            shape,
            context,
            memory,
            transfers,
            milestones,
            kvImports,
            kvExports,
            kvCopies,
            activations);
    blockSize = Math.min(blockSize, shape.blockSize());
    return kv;
  }

  @Override
  public DeviceBatch upload(Batch batch) {
    context.enter();
    weights.release();
    return steps.upload(batch, blockSize);
  }

  @Override
  public void runStep(DeviceBatch batch, Consumer<DeviceBatch> body) {
    context.enter();
    steps.run(CudaBatch.of(batch), body);
  }

  @Override
  public void warmUp(StepLimits limits, Consumer<Batch> step) {
    context.enter();
    steps.warmUp(limits, blockSize, tuned ? linear::tuning : Runnable::run, step);
  }

  /** The device and its streams. */
  CudaContext context() {
    return context;
  }

  /** The recorded steps. */
  StepGraphs graphs() {
    return steps.graphs();
  }

  @Override
  public void embed(Matrix table, DeviceBatch batch, float scale, DeviceBuffer out) {
    context.enter();
    CudaBatch rows = CudaBatch.of(batch);
    rowOps.embed(
        CudaMatrix.of(table, "table"),
        rows,
        scale,
        activations(out, elements(rows.batch().rows(), table.cols()), "out"));
  }

  @Override
  public void rmsNorm(
      DeviceBuffer x, Matrix weight, float weightOffset, float eps, int rows, DeviceBuffer out) {
    context.enter();
    long size = elements(rows, weight.cols());
    norms.rmsNorm(
        activations(x, size, "x"),
        CudaMatrix.vector(weight, weight.cols(), "weight"),
        weightOffset,
        eps,
        rows,
        activations(out, size, "out"));
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
    context.enter();
    long size = elements(rows, weight.cols());
    norms.addRmsNorm(
        activations(residual, size, "residual"),
        activations(delta, size, "delta"),
        CudaMatrix.vector(weight, weight.cols(), "weight"),
        weightOffset,
        eps,
        rows,
        activations(out, size, "out"));
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
    context.enter();
    norms.rmsNormHeads(
        activations(x, elements(rows, rowCols), "x"),
        rowCols,
        firstCol,
        heads,
        CudaMatrix.vector(weight, weight.cols(), "weight"),
        weightOffset,
        eps,
        rows);
  }

  @Override
  public void layerNorm(DeviceBuffer x, Matrix weight, float eps, int rows, DeviceBuffer out) {
    context.enter();
    long size = elements(rows, weight.cols());
    norms.layerNorm(
        activations(x, size, "x"),
        CudaMatrix.vector(weight, weight.cols(), "weight"),
        eps,
        rows,
        activations(out, size, "out"));
  }

  @Override
  public void add(DeviceBuffer residual, DeviceBuffer delta, int rows, int cols) {
    context.enter();
    long size = elements(rows, cols);
    rowOps.add(
        activations(residual, size, "residual"), activations(delta, size, "delta"), rows, cols);
  }

  @Override
  public void linear(DeviceBuffer x, int rows, Matrix weight, Matrix bias, DeviceBuffer out) {
    context.enter();
    long inputs = elements(rows, weight.cols());
    long outputs = elements(rows, weight.rows());
    requireApart(x, bytes(inputs), "x", out, bytes(outputs));
    linear.run(
        activations(x, inputs, "x"),
        rows,
        CudaMatrix.of(weight, "weight"),
        bias == null ? null : CudaMatrix.vector(bias, weight.rows(), "bias"),
        activations(out, outputs, "out"));
  }

  @Override
  public boolean takesTiles(Matrix weight) {
    return tiles != null && CudaMatrix.of(weight, "weight").resident() == activations;
  }

  @Override
  public void linearTile(
      DeviceBuffer x, int rows, Matrix weight, int firstColumn, int columns, DeviceBuffer out) {
    linear(x, rows, CudaMatrix.of(weight, "weight").part(firstColumn, columns), null, out);
  }

  @Override
  public void boundLinear(
      DeviceBuffer x, int rows, Matrix weight, int[] columns, DeviceBuffer out) {
    context.enter();
    if (!takesTiles(weight)) {
      throw new IllegalArgumentException(weight + " is not of " + activations);
    }
    for (int row = 0; row < rows; row++) {
      if (columns[row] >= weight.rows()) {
        throw new IllegalArgumentException("columns[" + row + "] = " + columns[row]);
      }
    }
    long inputs = elements(rows, weight.cols());
    tiles.bound(
        activations(x, inputs, "x"),
        rows,
        CudaMatrix.of(weight, "weight"),
        columns,
        activations(out, 2L * rows, "out"));
  }

  @Override
  public void ropeAndWriteKv(
      DeviceBatch batch,
      DeviceBuffer qkv,
      AttentionSpec spec,
      RopeTable rope,
      KvStorage kv,
      int layer) {
    context.enter();
    CudaBatch rows = CudaBatch.of(batch);
    CudaKvStorage cache = CudaKvStorage.of(kv, spec, layer);
    cache.requireFits(rows);
    long packed = activations(qkv, elements(rows.batch().rows(), spec.packedCols()), "qkv");
    this.rope.run(rows, packed, spec, rope == null ? null : CudaRopeTable.of(rope), cache, layer);
  }

  @Override
  public void attention(
      DeviceBatch batch,
      DeviceBuffer qkv,
      AttentionSpec spec,
      KvStorage kv,
      int layer,
      DeviceBuffer out) {
    context.enter();
    CudaBatch rows = CudaBatch.of(batch);
    long inputs = elements(rows.batch().rows(), spec.packedCols());
    long outputs = elements(rows.batch().rows(), spec.queryHeads() * spec.headDim());
    requireApart(qkv, bytes(inputs), "qkv", out, bytes(outputs));
    CudaKvStorage cache = CudaKvStorage.of(kv, spec, layer);
    cache.requireFits(rows);
    attention.run(
        rows,
        activations(qkv, inputs, "qkv"),
        spec,
        cache,
        layer,
        activations(out, outputs, "out"));
  }

  @Override
  public void gatedActivation(
      DeviceBuffer gateUp, int rows, int inner, Activation activation, DeviceBuffer out) {
    context.enter();
    long outputs = elements(rows, inner);
    requireApart(gateUp, 2 * bytes(outputs), "gateUp", out, bytes(outputs));
    rowOps.gatedActivation(
        activations(gateUp, elements(rows, Math.multiplyExact(2, inner)), "gateUp"),
        rows,
        inner,
        activation,
        activations(out, outputs, "out"));
  }

  @Override
  public void gatherRows(DeviceBuffer x, int cols, int[] indices, int count, DeviceBuffer out) {
    context.enter();
    long outputs = elements(count, cols);
    requireApart(x, x.bytes(), "x", out, bytes(outputs));
    long from = activations(x, 0, "x");
    long to = activations(out, outputs, "out");
    long held = x.bytes() / activations.bytes();
    for (int i = 0; i < count; i++) {
      if (indices[i] < 0 || (indices[i] + 1L) * cols > held) {
        throw new IllegalArgumentException(
            "indices[" + i + "] = " + indices[i] + " is no row of x");
      }
    }
    if (count > 0) {
      long list = rowNumbers.atLeast((long) count * Integer.BYTES);
      uploads.to(list).ints(indices, 0, count).end();
      rowOps.gather(from, cols, list, count, to);
    }
  }

  @Override
  public void transformLogits(DeviceBuffer logits, int rows, int cols, float scale, float softcap) {
    context.enter();
    rowOps.transformLogits(
        activations(logits, elements(rows, cols), "logits"), rows, cols, scale, softcap);
  }

  @Override
  public List<SampledToken> sample(DeviceBuffer logits, int vocabSize, List<SamplingRow> entries) {
    int rows = 0;
    for (SamplingRow entry : entries) {
      if (entry.row() < 0) {
        throw new IllegalArgumentException("A sampling entry has the row " + entry.row());
      }
      rows = Math.max(rows, Math.addExact(entry.row(), 1));
    }
    context.enter();
    long from = activations(logits, elements(rows, vocabSize), "logits");
    return sampling.run(from, logitsType(activations), vocabSize, entries);
  }

  @Override
  public void read(DeviceBuffer from, long firstElement, int count, float[] to, int toIndex) {
    read(from, logitsType(activations), firstElement, count, to, toIndex);
  }

  @Override
  public void toFloat32(DeviceBuffer from, LogitsType type, long count, DeviceBuffer to) {
    context.enter();
    long source = CudaBuffer.address(from, count, type.bytes(), "from");
    long target = reusable(CudaBuffer.address(to, count, Float.BYTES, "to"), count * Float.BYTES);
    // Not before the sizes are known to be possible.
    requireApart(from, count * type.bytes(), "from", to, count * Float.BYTES);
    switch (type) {
      case F32 -> transfers.copy(source, target, count * Float.BYTES);
      case F16 -> convert.widen(source, DType.F16, count, target);
      case BF16 -> convert.widen(source, DType.BF16, count, target);
    }
  }

  @Override
  public void copy(DeviceBuffer from, DeviceBuffer to, long bytes) {
    context.enter();
    long source = CudaBuffer.address(from, bytes, 1, "from");
    long target = reusable(CudaBuffer.address(to, bytes, 1, "to"), bytes);
    requireApart(from, bytes, "from", to, bytes);
    transfers.copy(source, target, bytes);
  }

  @Override
  public void download(DeviceBuffer from, long count, HostBuffer to, long toFirst) {
    context.enter();
    transfers.download(CudaBuffer.address(from, count, Float.BYTES, "from"), count, to, toFirst);
  }

  @Override
  public void write(float[] from, int fromIndex, int count, DeviceBuffer to, long first) {
    context.enter();
    long start = CudaBuffer.address(to, end(first, count), Float.BYTES, "to");
    java.util.Objects.checkFromIndexSize(fromIndex, count, from.length);
    if (count > 0) {
      reusable(start + first * Float.BYTES, (long) count * Float.BYTES);
      uploads.to(start + first * Float.BYTES).floats(from, fromIndex, count).end();
    }
  }

  @Override
  public void read(
      DeviceBuffer from, LogitsType type, long first, int count, float[] to, int toIndex) {
    long start = CudaBuffer.address(from, end(first, count), type.bytes(), "from");
    transfers.read(start + first * type.bytes(), type, count, to, toIndex);
  }

  @Override
  public void joinShards(
      DeviceBuffer shards, LogitsType type, int ranks, int rows, int cols, DeviceBuffer out) {
    if (ranks < 1 || rows < 0 || cols < 0) {
      throw new IllegalArgumentException("ranks " + ranks + ", rows " + rows + ", cols " + cols);
    }
    context.enter();
    // In elements of whole columns, so that no product overflows before it is refused.
    long row = (long) ranks * cols * type.bytes();
    if (rows > 0 && row > shards.bytes() / rows) {
      throw new IllegalArgumentException(
          "shards " + shards + " is too small for " + rows + " rows of " + row + " bytes");
    }
    long elements = (long) ranks * cols * rows;
    long from = CudaBuffer.address(shards, elements, type.bytes(), "shards");
    long to =
        reusable(CudaBuffer.address(out, elements, type.bytes(), "out"), elements * type.bytes());
    requireApart(shards, row * rows, "shards", out, row * rows);
    transfers.joinShards(from, ranks, rows, (long) cols * type.bytes(), to);
  }

  @Override
  public void reduce(
      DeviceBuffer from, LogitsType type, int rows, int cols, PromptLogprobs out, int firstEntry) {
    out.requireReducible(rows, cols, firstEntry);
    if (type != LogitsType.F32 && type != logitsType(activations)) {
      throw new IllegalArgumentException(
          "Rows to reduce are of float32 or of " + activations + ", not of " + type);
    }
    context.enter();
    reduce.run(
        CudaBuffer.address(from, elements(rows, cols), type.bytes(), "from"),
        type,
        rows,
        cols,
        out,
        firstEntry);
  }

  @Override
  public TileReduction reduceTiles(
      LogitsType type,
      int rows,
      int cols,
      PromptLogprobs out,
      int firstEntry,
      DeviceBuffer bounds) {
    out.requireReducible(rows, cols, firstEntry);
    if (tiles == null || type != logitsType(activations) || !TileOp.takes(out.topK())) {
      return null;
    }
    context.enter();
    TileOp.Reduction begun =
        tiles.begin(rows, cols, out, firstEntry, activations(bounds, 2L * rows, "bounds"));
    return new TileReduction() {
      @Override
      public void reduce(DeviceBuffer logits, int firstColumn, int columns) {
        begun.requireNext(firstColumn, columns);
        context.enter();
        begun.reduce(
            activations(logits, elements(begun.rows(), columns), "logits"), firstColumn, columns);
      }

      @Override
      public int[] finish() {
        context.enter();
        return begun.finish();
      }
    };
  }

  @Override
  public void awaitReductions() {
    context.enter();
    reduce.await();
    if (tiles != null) {
      tiles.await();
    }
  }

  @Override
  public void synchronize() {
    context.enter();
    context.synchronize();
  }

  @Override
  public void close() {
    // Kernels must not be running when they are unloaded.
    context.drain();
    owned.close();
  }

  private static LogitsType logitsType(DType type) {
    return switch (type) {
      case F32 -> LogitsType.F32;
      case F16 -> LogitsType.F16;
      case BF16 -> LogitsType.BF16;
    };
  }

  /** The address of activations. */
  private long activations(DeviceBuffer buffer, long elements, String name) {
    return reusable(
        CudaBuffer.address(buffer, elements, activations.bytes(), name), bytes(elements));
  }

  /** The address of memory that an operation may write to, while it may still be copied from. */
  private long reusable(long address, long bytes) {
    context.downloads().beforeReuse(address, bytes);
    return address;
  }

  private long bytes(long elements) {
    return elements * activations.bytes();
  }

  /** Elements of rows of cols; negative numbers of rows are refused here. */
  private static long elements(int rows, int cols) {
    if (rows < 0 || cols < 0) {
      throw new IllegalArgumentException("rows " + rows + ", cols " + cols);
    }
    return (long) rows * cols;
  }

  /** Where a run of elements ends. */
  private static long end(long first, int count) {
    if (first < 0 || count < 0 || first > Long.MAX_VALUE - count) {
      throw new IllegalArgumentException("from element " + first + ", count " + count);
    }
    return first + count;
  }
}
