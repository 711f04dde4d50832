package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.logits.HostBuffer;
import java.nio.FloatBuffer;
import java.util.Objects;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * Float32 elements in native memory, for any thread. The lock keeps a close that races with a copy
 * from freeing what is being copied.
 */
final class CpuHostBuffer implements HostBuffer {

  private final NativeBudget budget;
  private final long size;
  private final String purpose;
  private final ReadWriteLock lock = new ReentrantReadWriteLock();
  private NativeBlock block;
  private FloatBuffer floats;

  CpuHostBuffer(NativeBudget budget, NativeBlock block, long size, String purpose) {
    this.budget = budget;
    this.block = block;
    this.size = size;
    this.purpose = purpose;
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
        budget.free(block, size);
        floats = null;
        block = null;
      }
    } finally {
      lock.writeLock().unlock();
    }
  }

  @Override
  public String toString() {
    return "CpuHostBuffer[" + purpose + ", " + size + " bytes]";
  }
}
