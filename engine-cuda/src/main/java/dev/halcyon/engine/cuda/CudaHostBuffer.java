package dev.halcyon.engine.cuda;

import dev.halcyon.engine.logits.HostBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.Objects;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.LongUnaryOperator;

/**
 * Float32 elements in pinned memory, for any thread. The lock keeps a close that races with a copy
 * from freeing what is being copied.
 */
final class CudaHostBuffer implements HostBuffer {

  private final CudaHostMemory memory;
  private final long size;
  private final String purpose;
  private final ReadWriteLock lock = new ReentrantReadWriteLock();
  private volatile Downloads downloads;
  private volatile long lastCopy;
  private PinnedBlock block;
  private FloatBuffer floats;

  CudaHostBuffer(CudaHostMemory memory, PinnedBlock block, long size, String purpose) {
    this.memory = memory;
    this.size = size;
    this.purpose = purpose;
    this.block = block;
    this.floats = block.bytes().slice(0, (int) size).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer();
  }

  @Override
  public long bytes() {
    return size;
  }

  @Override
  public void read(long first, float[] to, int toIndex, int count) {
    lock.readLock().lock();
    try {
      FloatBuffer open = open();
      open.get((int) Objects.checkFromIndexSize(first, count, open.limit()), to, toIndex, count);
    } finally {
      lock.readLock().unlock();
    }
  }

  @Override
  public void write(long first, float[] from, int fromIndex, int count) {
    lock.readLock().lock();
    try {
      FloatBuffer open = open();
      open.put(
          (int) Objects.checkFromIndexSize(first, count, open.limit()), from, fromIndex, count);
    } finally {
      lock.readLock().unlock();
    }
  }

  /**
   * Starts a copy to this memory; reading, writing and closing wait for it.
   *
   * @param start starts it at the address of the memory, and returns its number
   */
  void receive(Downloads from, LongUnaryOperator start) {
    lock.readLock().lock();
    try {
      requireOpen();
      downloads = from;
      lastCopy = start.applyAsLong(block.address().address());
    } finally {
      lock.readLock().unlock();
    }
  }

  /** The elements, all copies done. */
  private FloatBuffer open() {
    requireOpen();
    awaitCopies();
    return floats;
  }

  private void requireOpen() {
    if (floats == null) {
      throw new IllegalStateException("The host buffer for " + purpose + " is closed");
    }
  }

  private void awaitCopies() {
    long number = lastCopy;
    if (number > 0) {
      downloads.await(number);
    }
  }

  @Override
  public void close() {
    lock.writeLock().lock();
    try {
      if (block != null) {
        PinnedBlock held = block;
        floats = null;
        block = null;
        try {
          awaitCopies();
        } catch (CudaException e) {
          // The device is lost, and with it the copy that nobody will read.
        } finally {
          memory.free(held);
        }
      }
    } finally {
      lock.writeLock().unlock();
    }
  }

  @Override
  public String toString() {
    return "CudaHostBuffer[" + purpose + ", " + size + " bytes]";
  }
}
