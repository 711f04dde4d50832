package dev.halcyon.engine.disagg.transfer;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;

/**
 * Memory of pieces that nobody uses, kept for the next piece up to a bound: new memory costs more
 * than sending what is in it, as the system and Java fill it with zeros. What was given back last,
 * and may still be in a processor's cache, is taken first. Safe for use by several threads.
 *
 * @param <T> a piece's memory, of a size of {@link #sizeFor}
 */
final class KeptMemory<T> {

  /** Before a piece's bytes: room for its header, a cache line so that the bytes begin another. */
  static final int HEADER_ROOM = 64;

  private static final int MIN_BYTES = 1 << 12;
  private static final long MAX_KEPT_BYTES = 1L << 26;

  private final Map<Integer, Deque<T>> kept = new HashMap<>();
  private long keptBytes;
  private boolean closed;

  /**
   * The size of memory for a header and a piece, one of few.
   *
   * @param bytes the piece's, at most {@link NetworkOptions#MAX_PIECE_BYTES}
   */
  static int sizeFor(int bytes) {
    return HEADER_ROOM + Integer.highestOneBit(2 * Math.max(MIN_BYTES, bytes) - 1);
  }

  /** New memory that begins a cache line. It is Java's: whoever holds it on does no harm. */
  static ByteBuffer create(int size) {
    return ByteBuffer.allocateDirect(size + HEADER_ROOM).alignedSlice(HEADER_ROOM).slice(0, size);
  }

  /** Some that was kept; null if there is none of this size. */
  synchronized T take(int size) {
    Deque<T> fitting = kept.get(size);
    if (fitting == null || fitting.isEmpty()) {
      return null;
    }
    keptBytes -= size;
    return fitting.pop();
  }

  /** Keeps what is not in use any more; false if there is enough of it, or this is closed. */
  synchronized boolean keep(int size, T memory) {
    if (closed || keptBytes + size > MAX_KEPT_BYTES) {
      return false;
    }
    keptBytes += size;
    kept.computeIfAbsent(size, key -> new ArrayDeque<>()).push(memory);
    return true;
  }

  /** Keeps nothing from now on. */
  synchronized void close() {
    closed = true;
    kept.clear();
  }
}
