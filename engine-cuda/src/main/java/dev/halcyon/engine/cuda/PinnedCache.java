package dev.halcyon.engine.cuda;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * Large pinned blocks that nobody uses any more, kept for whoever asks next: locking pages takes
 * several times as long as filling them from the device. Any thread may call it.
 */
final class PinnedCache implements AutoCloseable {

  /** A block is given for fewer bytes only if no more than an eighth of it is left over. */
  private static final int LEFT_OVER = 8;

  private final List<PinnedBlock> blocks = new ArrayList<>();
  private long held;
  private boolean closed;

  /** Bytes of the blocks kept. */
  synchronized long held() {
    return held;
  }

  /** The smallest block that fits, or null. */
  synchronized PinnedBlock take(long bytes) {
    PinnedBlock best =
        blocks.stream()
            .filter(block -> fits(size(block), bytes))
            .min(Comparator.comparingLong(PinnedCache::size))
            .orElse(null);
    if (best != null) {
      blocks.remove(best);
      held -= size(best);
    }
    return best;
  }

  private static boolean fits(long size, long bytes) {
    return size >= bytes && size - bytes <= size / LEFT_OVER;
  }

  private static long size(PinnedBlock block) {
    return block.bytes().capacity();
  }

  /** Keeps a block, or frees it if it is small or too late. */
  void give(PinnedBlock block) {
    if (!keeps(block)) {
      block.close();
    }
  }

  private synchronized boolean keeps(PinnedBlock block) {
    if (closed || size(block) < PinnedBlock.LARGE_BYTES) {
      return false;
    }
    blocks.add(block);
    held += size(block);
    return true;
  }

  /** Frees blocks, those kept longest first, until no more than so many bytes are kept. */
  synchronized void shrink(long bytes) {
    while (held > bytes) {
      PinnedBlock oldest = blocks.remove(0);
      held -= size(oldest);
      oldest.close();
    }
  }

  /** Frees all blocks, and from now on those that are given. */
  @Override
  public synchronized void close() {
    closed = true;
    shrink(0);
  }
}
