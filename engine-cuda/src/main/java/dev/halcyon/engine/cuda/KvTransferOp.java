package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cudaEventCreateWithFlags;
import static org.bytedeco.cuda.global.cudart.cudaEventDestroy;
import static org.bytedeco.cuda.global.cudart.cudaEventRecord;
import static org.bytedeco.cuda.global.cudart.cudaEventSynchronize;

import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.backend.KvShape;
import dev.halcyon.engine.backend.Owned;
import java.nio.ByteBuffer;
import org.bytedeco.cuda.cudart.CUevent_st;
import org.bytedeco.cuda.global.cudart;

/**
 * Copies keys and values between the cache and the host; kernels in kv_transfer.cu, which read and
 * write pinned memory themselves. On the way two pinned blocks take turns, made for the first copy:
 * the device works on one while the host copies from or to the other. All of it is in the order of
 * the compute stream. For the owner thread.
 */
final class KvTransferOp implements AutoCloseable {

  private static final int THREADS = 256;
  private static final int WIDE_BYTES = 16;
  private static final int NARROW_BYTES = 2;

  /** Whole units of both widths. */
  private static final int BLOCK_BYTES = 1 << 20;

  private final Launch launch;
  private final CudaContext context;
  private final UploadRing uploads;
  private final DeviceScratch table;
  private final Kernel exportWide;
  private final Kernel exportNarrow;
  private final Kernel importWide;
  private final Kernel importNarrow;
  private final Owned owned = new Owned();
  private Turn[] turns;

  /** Pinned memory, and when the device is done with it. */
  private record Turn(PinnedBlock block, CUevent_st done) {}

  /**
   * Tokens of a sequence in one layer.
   *
   * @param keys the address of the layer's keys
   * @param values the address of the layer's values
   * @param blocks the sequence's blocks
   * @param elementBytes the size of an element
   * @param bytes all of the tokens' keys and values
   */
  record Tokens(
      KvShape shape,
      long keys,
      long values,
      int[] blocks,
      int first,
      int count,
      int elementBytes,
      long bytes) {

    int headBytes() {
      return shape.headDim() * elementBytes;
    }

    int unitBytes() {
      return headBytes() % WIDE_BYTES == 0 ? WIDE_BYTES : NARROW_BYTES;
    }
  }

  KvTransferOp(
      KernelLibrary library,
      Launch launch,
      CudaContext context,
      CudaMemory memory,
      UploadRing uploads) {
    this.launch = launch;
    this.context = context;
    this.uploads = uploads;
    table = new DeviceScratch(memory, "blocks of keys and values to copy");
    exportWide = library.kernel(KernelSource.KV_TRANSFER, "kv_export");
    exportNarrow = library.kernel(KernelSource.KV_TRANSFER, "kv_export_narrow");
    importWide = library.kernel(KernelSource.KV_TRANSFER, "kv_import");
    importNarrow = library.kernel(KernelSource.KV_TRANSFER, "kv_import_narrow");
  }

  /** Copies to the host, complete on return. */
  void exportTokens(Tokens tokens, ByteBuffer to) {
    Kernel kernel = tokens.unitBytes() == WIDE_BYTES ? exportWide : exportNarrow;
    long blocks = begin(tokens);
    long asked = 0;
    long done = 0;
    for (int next = 0; done < tokens.bytes(); next ^= 1) {
      while (asked < tokens.bytes() && asked - done < 2L * BLOCK_BYTES) {
        Turn turn = turns[(int) (asked / BLOCK_BYTES & 1)];
        asked += start(kernel, tokens, blocks, asked, turn);
      }
      int run = (int) Math.min(BLOCK_BYTES, tokens.bytes() - done);
      to.put(await(turns[next]).limit(run));
      done += run;
    }
  }

  /** Copies from the host; what is called from now on finds the tokens in the cache. */
  void importTokens(Tokens tokens, ByteBuffer from) {
    Kernel kernel = tokens.unitBytes() == WIDE_BYTES ? importWide : importNarrow;
    long blocks = begin(tokens);
    int next = 0;
    for (long done = 0; done < tokens.bytes(); next ^= 1) {
      int run = (int) Math.min(BLOCK_BYTES, tokens.bytes() - done);
      await(turns[next]).put(from.slice().limit(run));
      from.position(from.position() + run);
      done += start(kernel, tokens, blocks, done, turns[next]);
    }
  }

  private long begin(Tokens tokens) {
    if (turns == null) {
      turns = allocateTurns();
    }
    return upload(tokens);
  }

  /** Puts the blocks that are needed on the device; returns where. */
  private long upload(Tokens tokens) {
    int blockSize = tokens.shape().blockSize();
    int first = tokens.first() / blockSize;
    int count = (tokens.first() + tokens.count() - 1) / blockSize - first + 1;
    long address = table.atLeast((long) count * Integer.BYTES);
    uploads.to(address).ints(tokens.blocks(), first, count).end();
    return address;
  }

  private Turn[] allocateTurns() {
    Owned made = new Owned();
    try {
      Turn[] both = {turn(made), turn(made)};
      owned.add(made::close);
      return both;
    } catch (RuntimeException | Error e) {
      made.closeAfter(e);
      throw e;
    }
  }

  private Turn turn(Owned made) {
    PinnedBlock block = PinnedBlock.allocate(context.device(), BLOCK_BYTES);
    if (block == null) {
      throw new EngineException(
          "The system can't lock " + BLOCK_BYTES + " bytes of memory for copies of the KV cache");
    }
    made.add(block::close);
    CUevent_st done = new CUevent_st();
    context.check(
        cudaEventCreateWithFlags(done, cudart.cudaEventDisableTiming), "creating an event");
    made.add(() -> cudaEventDestroy(done));
    return new Turn(block, done);
  }

  /** The memory of a turn, once the device is done with it. */
  private ByteBuffer await(Turn turn) {
    // An event that was never recorded counts as done.
    context.check(cudaEventSynchronize(turn.done()), "copying keys and values");
    return turn.block().bytes().clear();
  }

  /**
   * Starts the copy of as much as a turn holds.
   *
   * @param from how many bytes come before
   * @return how many bytes are copied
   */
  private int start(Kernel kernel, Tokens tokens, long blocks, long from, Turn turn) {
    int run = (int) Math.min(BLOCK_BYTES, tokens.bytes() - from);
    launch(kernel, tokens, blocks, from, run, turn.block().address().address());
    context.check(cudaEventRecord(turn.done(), context.compute()), "copying keys and values");
    return run;
  }

  /**
   * Starts a copy.
   *
   * @param from how many bytes come before
   * @param memory pinned memory
   */
  private void launch(Kernel kernel, Tokens tokens, long blocks, long from, int run, long memory) {
    KvShape shape = tokens.shape();
    int unit = tokens.unitBytes();
    launch
        .of(kernel)
        .address(tokens.keys())
        .address(tokens.values())
        .address(blocks)
        .address(memory)
        .i32((int) (from / unit))
        .i32(run / unit)
        .i32(tokens.first() % shape.blockSize())
        .i32(tokens.count())
        .i32(shape.heads())
        .i32(tokens.headBytes() / unit)
        .i32(Integer.numberOfTrailingZeros(shape.blockSize()))
        .run(Groups.ceilDiv(run / unit, THREADS), THREADS);
  }

  @Override
  public void close() {
    table.close();
    owned.close();
  }
}
