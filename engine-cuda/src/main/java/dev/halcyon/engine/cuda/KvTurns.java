package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cudaEventRecord;
import static org.bytedeco.cuda.global.cudart.cudaEventSynchronize;

import dev.halcyon.engine.backend.KvShape;
import dev.halcyon.engine.backend.Owned;
import java.nio.ByteBuffer;
import org.bytedeco.cuda.cudart.CUevent_st;

/**
 * Copies keys and values one way between the cache and two pinned blocks, made for the first copy,
 * that take turns: the device works on one while the host copies from or to the other. Kernels in
 * kv_transfer.cu read and write that memory themselves. For one thread at a time.
 */
final class KvTurns implements AutoCloseable {

  /** What a turn holds: whole units of both widths. */
  static final int BYTES = 1 << 20;

  static final String PURPOSE = "copies of the KV cache";

  private static final int THREADS = 256;
  private static final int WIDE_BYTES = 16;
  private static final int NARROW_BYTES = 2;

  private final CudaContext context;
  private final Launch launch;
  private final Kernel wide;
  private final Kernel narrow;
  private final Owned owned = new Owned();
  private Turn[] turns;

  /** Pinned memory, and when the device is done with it. */
  private record Turn(PinnedBlock block, CUevent_st done) {}

  /**
   * @param kernel names the kernel that copies, which has a narrow sibling
   */
  KvTurns(CudaContext context, KernelLibrary library, Launch launch, String kernel) {
    this.context = context;
    this.launch = launch;
    wide = library.kernel(KernelSource.KV_TRANSFER, kernel);
    narrow = library.kernel(KernelSource.KV_TRANSFER, kernel + "_narrow");
  }

  /**
   * Makes what is needed; before the first of a piece's copies.
   *
   * @throws dev.halcyon.engine.EngineException if the system can't lock the memory; nothing is held
   *     then
   */
  void prepare() {
    if (turns != null) {
      return;
    }
    Owned made = new Owned();
    try {
      turns = new Turn[] {turn(made), turn(made)};
      owned.add(made::close);
    } catch (RuntimeException | Error e) {
      made.closeAfter(e);
      throw e;
    }
  }

  private Turn turn(Owned made) {
    PinnedBlock block = PinnedBlock.require(context.device(), BYTES, PURPOSE);
    made.add(block::close);
    CUevent_st done = context.event(made);
    // Whoever gave up half-way has left copies under way.
    made.add(() -> cudaEventSynchronize(done));
    return new Turn(block, done);
  }

  /** The memory of turn 0 or 1, once the device is done with it. */
  ByteBuffer await(int turn) {
    // An event that was never recorded counts as done.
    context.check(cudaEventSynchronize(turns[turn].done()), "copying keys and values");
    return turns[turn].block().bytes().clear();
  }

  /**
   * Starts the copy of as much as a turn holds.
   *
   * @param blocks the address of the numbers of the tokens' blocks, from the first token's on
   * @param from how many bytes of the tokens come before
   * @param turn 0 or 1
   * @return how many bytes are copied
   */
  int start(KvTokens tokens, long blocks, long from, int turn) {
    int run = (int) Math.min(BYTES, tokens.bytes() - from);
    launch(tokens, blocks, from, run, turns[turn].block().address().address());
    context.check(cudaEventRecord(turns[turn].done(), launch.stream()), "copying keys and values");
    return run;
  }

  private void launch(KvTokens tokens, long blocks, long from, int run, long memory) {
    KvShape shape = tokens.shape();
    int unit = tokens.headBytes() % WIDE_BYTES == 0 ? WIDE_BYTES : NARROW_BYTES;
    launch
        .of(unit == WIDE_BYTES ? wide : narrow)
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

  /** Waits for copies that are under way. */
  @Override
  public void close() {
    owned.close();
  }
}
