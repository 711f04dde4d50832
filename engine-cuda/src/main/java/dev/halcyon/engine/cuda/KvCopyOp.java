package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.KvRange;
import dev.halcyon.engine.backend.KvShape;

/**
 * Copies keys and values from one cache of a device to another, which may belong to another engine;
 * kernels in kv_copy.cu. For the owner thread of the engine that receives them.
 */
final class KvCopyOp implements AutoCloseable {

  private static final int THREADS = 256;
  private static final int WARPS = THREADS / 32;
  private static final int WIDE_BYTES = 16;
  private static final int NARROW_BYTES = 2;

  private final Launch launch;
  private final CudaContext context;
  private final UploadRing uploads;
  private final DeviceScratch tables;
  private final Kernel wide;
  private final Kernel narrow;

  /**
   * A sequence in a cache.
   *
   * @param begin the address of the first layer's keys; values, then further layers lie behind them
   * @param blocks the sequence's blocks
   */
  record Pages(KvShape shape, long begin, int[] blocks) {

    int firstBlock(int token) {
      return token / shape.blockSize();
    }

    int blocks(KvRange range) {
      return firstBlock(range.firstToken() + range.count() - 1)
          - firstBlock(range.firstToken())
          + 1;
    }

    int blockShift() {
      return Integer.numberOfTrailingZeros(shape.blockSize());
    }

    /** Elements of all keys of a layer, or of all values. */
    long planeElements() {
      return (long) shape.blocks() * shape.blockSize() * shape.heads() * shape.headDim();
    }
  }

  KvCopyOp(
      KernelLibrary library,
      Launch launch,
      CudaContext context,
      CudaMemory memory,
      UploadRing uploads) {
    this.launch = launch;
    this.context = context;
    this.uploads = uploads;
    tables = new DeviceScratch(memory, "blocks of keys and values to copy between caches");
    wide = library.kernel(KernelSource.KV_COPY, "kv_copy");
    narrow = library.kernel(KernelSource.KV_COPY, "kv_copy_narrow");
  }

  /**
   * Copies tokens, complete on return.
   *
   * @param from where they are, in a cache with as many heads of the same size
   */
  void copy(Pages from, Pages to, KvRange range, int elementBytes) {
    int headBytes = to.shape().headDim() * elementBytes;
    int unit = headBytes % WIDE_BYTES == 0 ? WIDE_BYTES : NARROW_BYTES;
    int chunkShift = Math.min(from.blockShift(), to.blockShift());
    int firstChunk = range.firstToken() >> chunkShift;
    int chunks = (range.firstToken() + range.count() - 1 >> chunkShift) - firstChunk + 1;
    long fromTable = upload(from, to, range);
    long toTable = fromTable + (long) from.blocks(range) * Integer.BYTES;
    launch
        .of(unit == WIDE_BYTES ? wide : narrow)
        .address(from.begin())
        .address(to.begin())
        .address(fromTable)
        .address(toTable)
        .i64(from.planeElements() * elementBytes / unit)
        .i64(to.planeElements() * elementBytes / unit)
        .i32(range.firstToken())
        .i32(range.count())
        .i32(to.shape().heads())
        .i32(headBytes / unit)
        .i32(from.blockShift())
        .i32(to.blockShift())
        .i32(chunks)
        .run(
            Groups.ceilDiv(Math.multiplyExact(chunks, to.shape().heads()), WARPS),
            2 * range.layers(),
            1,
            THREADS,
            0);
    context.awaitCompute();
  }

  /** Puts the blocks that are needed on the device, the source's first; returns where. */
  private long upload(Pages from, Pages to, KvRange range) {
    int fromBlocks = from.blocks(range);
    int toBlocks = to.blocks(range);
    long address = tables.atLeast((long) (fromBlocks + toBlocks) * Integer.BYTES);
    uploads
        .to(address)
        .ints(from.blocks(), from.firstBlock(range.firstToken()), fromBlocks)
        .ints(to.blocks(), to.firstBlock(range.firstToken()), toBlocks)
        .end();
    return address;
  }

  @Override
  public void close() {
    tables.close();
  }
}
