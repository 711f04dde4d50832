package dev.halcyon.engine.cuda;

import dev.halcyon.engine.logits.HostBuffer;
import java.nio.FloatBuffer;
import java.util.Objects;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.LongConsumer;

/**
 * Float32 elements in pinned memory, for any thread. The lock keeps a close that races with a copy
 * from freeing what is being copied.
 */
final class CudaHostBuffer implements HostBuffer {

  private final CudaHostMemory memory;
  private final long size;
  private final String purpose;
  private final ReadWriteLock lock = new ReentrantReadWriteLock();
  private PinnedBlock block;
  private FloatBuffer floats;

  CudaHostBuffer(CudaHostMemory memory, PinnedBlock block, long size, String purpose) {
    this.memory = memory;
    this.size = size;
    this.purpose = purpose;
    this.block = block;
    this.floats = block.bytes().asFloatBuffer();
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

  /** Does something with the address of the memory, while it can't be closed. */
  void withAddress(LongConsumer action) {
    lock.readLock().lock();
    try {
      open();
      action.accept(block.address().address());
    } finally {
      lock.readLock().unlock();
    }
  }

  private FloatBuffer open() {
    if (floats == null) {
      throw new IllegalStateException("The host buffer for " + purpose + " is closed");
    }
    return floats;
  }

  @Override
  public void close() {
    lock.writeLock().lock();
    try {
      if (block != null) {
        memory.free(block, size);
        floats = null;
        block = null;
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
