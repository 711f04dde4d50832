package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.AttentionSpec;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.KvRange;
import dev.halcyon.engine.backend.KvShape;
import dev.halcyon.engine.backend.KvStorage;
import java.nio.ByteBuffer;

/**
 * The paged KV cache, of activations: [layers, 2 (keys, values), blocks, heads, blockSize,
 * headDim]. All of a head's keys in a block lie together, so that attention reads runs of them.
 */
final class CudaKvStorage implements KvStorage {

  private static final long COPY_BYTES = 1L << 30;

  private final CudaContext context;
  private final KvShape shape;
  private final TransferOps transfers;
  private final Milestones milestones;
  private final KvImportOp imports;
  private final KvExportOp exports;
  private final KvCopyOp copies;
  private final DType activations;
  private final int elementBytes;
  private final CudaBuffer buffer;
  private final long blockBytes;
  private CudaBatch checked;

  /**
   * @throws dev.halcyon.engine.logits.OutOfDeviceMemoryException if the memory has no room
   */
  CudaKvStorage(
      KvShape shape,
      CudaContext context,
      CudaMemory memory,
      TransferOps transfers,
      Milestones milestones,
      KvImportOp imports,
      KvExportOp exports,
      KvCopyOp copies,
      DType activations) {
    shape.requireValid();
    this.context = context;
    this.shape = shape;
    this.transfers = transfers;
    this.milestones = milestones;
    this.imports = imports;
    this.exports = exports;
    this.copies = copies;
    this.activations = activations;
    elementBytes = activations.bytes();
    blockBytes = (long) shape.blockSize() * shape.heads() * shape.headDim() * elementBytes;
    long bytes = Math.multiplyExact(2L * shape.layers() * shape.blocks(), blockBytes);
    buffer = memory.allocate(bytes, "the KV cache");
  }

  /** The cache, for a layer's attention. */
  static CudaKvStorage of(KvStorage kv, AttentionSpec spec, int layer) {
    if (!(kv instanceof CudaKvStorage cuda)) {
      throw new IllegalArgumentException("kv is not a cache of the CUDA backend: " + kv);
    }
    spec.requireFits(cuda.shape, layer);
    return cuda;
  }

  @Override
  public KvShape shape() {
    return shape;
  }

  /** Checks a batch's slots and block tables, once. */
  void requireFits(CudaBatch batch) {
    if (batch != checked) {
      batch.batch().requireFits(shape);
      checked = batch;
    }
  }

  /** The address of a layer's keys, [blocks, heads, blockSize, headDim]. */
  long keys(int layer) {
    return plane(2 * layer);
  }

  /** The address of a layer's values, laid out as its keys. */
  long values(int layer) {
    return plane(2 * layer + 1);
  }

  private long plane(int number) {
    return buffer.address() + number * shape.blocks() * blockBytes;
  }

  @Override
  public void copyBlock(int from, int to) {
    shape.requireBlock(from);
    shape.requireBlock(to);
    if (from == to) {
      return;
    }
    context.enter();
    for (int plane = 0; plane < 2 * shape.layers(); plane++) {
      transfers.copy(plane(plane) + from * blockBytes, plane(plane) + to * blockBytes, blockBytes);
    }
  }

  @Override
  public boolean transferable() {
    return true;
  }

  @Override
  public void exportTokens(int layer, int[] blocks, int firstToken, int count, ByteBuffer to) {
    long bytes = bytes(layer, blocks, firstToken, count, to);
    exports.run(() -> tokens(layer, blocks, firstToken, count, bytes), to);
  }

  @Override
  public void importTokens(int layer, int[] blocks, int firstToken, int count, ByteBuffer from) {
    long bytes = bytes(layer, blocks, firstToken, count, from);
    context.enter();
    imports.run(tokens(layer, blocks, firstToken, count, bytes), from);
  }

  /** The bytes of tokens that are there, and that a buffer has room for. */
  private long bytes(int layer, int[] blocks, int firstToken, int count, ByteBuffer buffer) {
    return shape.requireTokens(layer, blocks, firstToken, count, elementBytes, buffer.remaining());
  }

  private KvTokens tokens(int layer, int[] blocks, int firstToken, int count, long bytes) {
    return new KvTokens(
        shape, keys(layer), values(layer), blocks, firstToken, count, elementBytes, bytes);
  }

  @Override
  public boolean exportsOnAnyThread() {
    return true;
  }

  @Override
  public boolean copiesFrom(KvStorage other) {
    return other instanceof CudaKvStorage cuda
        && cuda.context.device().index() == context.device().index()
        && cuda.activations == activations
        && cuda.shape.holdsTheSameAs(shape);
  }

  /** Half a millisecond on the fastest devices, where a call takes a tenth of that. */
  @Override
  public long copyBytes() {
    return COPY_BYTES;
  }

  @Override
  public void copyTokens(KvStorage from, int[] fromBlocks, int[] blocks, KvRange range) {
    if (!copiesFrom(from)) {
      throw new IllegalArgumentException("tokens of " + from + " can't be copied to " + this);
    }
    CudaKvStorage source = (CudaKvStorage) from;
    range.requireWithin(source.shape, fromBlocks);
    range.requireWithin(shape, blocks);
    context.enter();
    copies.copy(source.pages(fromBlocks, range), pages(blocks, range), range, elementBytes);
  }

  private KvCopyOp.Pages pages(int[] blocks, KvRange range) {
    return new KvCopyOp.Pages(shape, keys(range.firstLayer()), blocks);
  }

  @Override
  public void awaitWrites() {
    context.enter();
    context.awaitCompute();
  }

  @Override
  public void whenWritten(Runnable then) {
    context.enter();
    milestones.whenComputed(then);
  }

  /** Not under an export: reading memory that is gone may take the device from the process. */
  @Override
  public void close() {
    exports.between(buffer::close);
  }
}
