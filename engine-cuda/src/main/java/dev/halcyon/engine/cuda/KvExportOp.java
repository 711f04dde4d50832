package dev.halcyon.engine.cuda;

import java.nio.ByteBuffer;
import java.util.function.Supplier;

/**
 * Copies keys and values that are written from the cache to the host, for any thread, one at a
 * time, on a stream of their own: whatever the owner thread has queued goes on beside them, and
 * does not hold them up. So nothing here is the owner's: the device reads the numbers of blocks
 * from pinned memory.
 */
final class KvExportOp implements AutoCloseable {

  private static final int LEAST_TABLE_BYTES = 64 << 10;

  private final CudaContext context;
  private final KvTurns turns;
  private PinnedBlock table;
  private boolean closed;

  /**
   * @param launch on the stream of exports, used by nobody else
   */
  KvExportOp(KernelLibrary library, Launch launch, CudaContext context) {
    this.context = context;
    turns = new KvTurns(context, library, launch, "kv_export");
  }

  /**
   * Copies tokens, complete on return.
   *
   * @param find says where they are, while their cache can't be closed
   * @throws IllegalStateException if the backend is closed
   */
  synchronized void run(Supplier<KvTokens> find, ByteBuffer to) {
    if (closed) {
      throw new IllegalStateException("The CUDA backend is closed");
    }
    context.enter();
    KvTokens tokens = find.get();
    turns.prepare();
    long blocks = table(tokens);
    long asked = 0;
    long done = 0;
    for (int next = 0; done < tokens.bytes(); next ^= 1) {
      while (asked < tokens.bytes() && asked - done < 2L * KvTurns.BYTES) {
        asked += turns.start(tokens, blocks, asked, (int) (asked / KvTurns.BYTES & 1));
      }
      int run = (int) Math.min(KvTurns.BYTES, tokens.bytes() - done);
      to.put(turns.await(next).limit(run));
      done += run;
    }
  }

  /** Puts the numbers of the blocks that are needed where the device reads them; returns where. */
  private long table(KvTokens tokens) {
    // Of an export that failed half-way, kernels may still read it.
    turns.await(0);
    turns.await(1);
    int bytes = Math.multiplyExact(tokens.blockCount(), Integer.BYTES);
    if (table == null || table.bytes().capacity() < bytes) {
      closeTable();
      table =
          PinnedBlock.require(
              context.device(), Math.max(LEAST_TABLE_BYTES, bytes), KvTurns.PURPOSE);
    }
    table.bytes().asIntBuffer().put(tokens.blocks(), tokens.firstBlock(), tokens.blockCount());
    return table.address().address();
  }

  /** Does what no export may be under way for, such as closing a cache. */
  synchronized void between(Runnable change) {
    change.run();
  }

  private void closeTable() {
    if (table != null) {
      table.close();
      table = null;
    }
  }

  /** Waits for an export that is under way. */
  @Override
  public synchronized void close() {
    closed = true;
    turns.close();
    closeTable();
  }
}
