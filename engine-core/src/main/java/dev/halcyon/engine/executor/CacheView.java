package dev.halcyon.engine.executor;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.backend.KvRange;
import dev.halcyon.engine.backend.KvStorage;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvView;
import java.nio.ByteBuffer;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * A prompt in its engine's cache, complete once it is pinned. Other threads copy from it, one part
 * at a time, and hold a lock meanwhile: the one of the engine that receives it, or a transport's.
 * Whoever ends the view waits for that part, which is short and waits for nobody. So blocks are
 * never freed, nor the cache closed, under a copy.
 */
final class CacheView implements KvView {

  private final KvStorage storage;
  private final ReentrantReadWriteLock lock = new ReentrantReadWriteLock();
  private volatile long lastUse;

  /** The prompt's, which stay as they are until the end; null as long as it is not complete. */
  private volatile int[] blocks;

  /** Guarded by the lock: null as long as it is open. */
  private KvTransferException ended;

  CacheView(KvStorage storage) {
    this.storage = storage;
  }

  /**
   * Has it copied from now on.
   *
   * @param written the prompt's blocks, all written
   */
  void open(int[] written, long now) {
    lastUse = now;
    blocks = written;
  }

  @Override
  public boolean complete() {
    return blocks != null;
  }

  boolean isFor(KvStorage target) {
    return target.copiesFrom(storage);
  }

  /** When something was copied last, or when the view was opened. */
  long lastUse() {
    return lastUse;
  }

  /**
   * Copies tokens to another cache, on its owner's thread.
   *
   * @throws KvTransferException if the view has ended
   */
  void copyTo(KvStorage target, int[] targetBlocks, KvRange range) {
    lock.readLock().lock();
    try {
      if (ended != null) {
        throw new KvTransferException(ended.reason(), ended.getMessage(), ended);
      }
      target.copyTokens(storage, blocks, targetBlocks, range);
      lastUse = System.nanoTime();
    } finally {
      lock.readLock().unlock();
    }
  }

  /** Writes a piece out of the cache; returns null, or why that can't be. */
  KvTransferException export(KvPiece piece, ByteBuffer to) {
    lock.readLock().lock();
    try {
      if (ended != null) {
        return ended;
      }
      KvTransferException error = export(storage, blocks, piece, to);
      lastUse = System.nanoTime();
      return error;
    } finally {
      lock.readLock().unlock();
    }
  }

  /** Writes a piece out of a cache's blocks; returns null, or why that can't be. */
  static KvTransferException export(KvStorage storage, int[] blocks, KvPiece piece, ByteBuffer to) {
    try {
      if (piece.stored()) {
        storage.exportStored(piece.layer(), blocks, piece.firstToken(), piece.count(), to);
      } else {
        storage.exportTokens(piece.layer(), blocks, piece.firstToken(), piece.count(), to);
      }
      return null;
    } catch (RuntimeException e) {
      return new KvTransferException(
          Reason.PEER_LOST, "Keys and values can't be read: " + e.getMessage(), e);
    }
  }

  /** Ends it; once this returns nobody copies any more. A call after the first changes nothing. */
  void end(KvTransferException why) {
    lock.writeLock().lock();
    try {
      if (ended == null) {
        ended = why;
      }
    } finally {
      lock.writeLock().unlock();
    }
  }
}
