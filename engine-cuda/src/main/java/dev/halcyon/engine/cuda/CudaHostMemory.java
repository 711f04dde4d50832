package dev.halcyon.engine.cuda;

import com.sun.management.OperatingSystemMXBean;
import dev.halcyon.engine.logits.HostMemory;
import dev.halcyon.engine.logits.OutOfHostMemoryException;
import java.lang.management.ManagementFactory;
import java.util.concurrent.atomic.AtomicLong;

/** Pinned host memory with a budget, which holds anything at first; it outlives the backend. */
final class CudaHostMemory implements HostMemory {

  private static final int PART_OF_MACHINE = 4;

  private final CudaDevice device;
  private final long capacity;
  private final AtomicLong used = new AtomicLong();

  /**
   * @param capacity the budget in bytes; 0 for a quarter of the machine's (or container's) physical
   *     memory
   */
  CudaHostMemory(CudaDevice device, long capacity) {
    if (capacity < 0) {
      throw new IllegalArgumentException("hostMemoryBytes must not be negative, is " + capacity);
    }
    this.device = device;
    this.capacity = capacity == 0 ? physicalBytes() / PART_OF_MACHINE : capacity;
  }

  private static long physicalBytes() {
    return ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getTotalMemorySize();
  }

  @Override
  public CudaHostBuffer allocate(long bytes, String purpose) {
    if (bytes < 0) {
      throw new IllegalArgumentException(
          "bytes must not be negative, is " + bytes + ": " + purpose);
    }
    if (bytes > PinnedBlock.MAX_BYTES || !reserve(bytes)) {
      throw new OutOfHostMemoryException(purpose, bytes, available());
    }
    PinnedBlock block = null;
    try {
      block = PinnedBlock.allocate(device, bytes);
    } finally {
      if (block == null) {
        used.addAndGet(-bytes);
      }
    }
    if (block == null) {
      throw new OutOfHostMemoryException(purpose, bytes, available());
    }
    return new CudaHostBuffer(this, block, bytes, purpose);
  }

  private boolean reserve(long bytes) {
    while (true) {
      long held = used.get();
      if (bytes > capacity - held) {
        return false;
      }
      if (used.compareAndSet(held, held + bytes)) {
        return true;
      }
    }
  }

  private long available() {
    return Math.min(Math.max(0, capacity - used.get()), PinnedBlock.MAX_BYTES);
  }

  /** Takes a block back, once. */
  void free(PinnedBlock block, long bytes) {
    block.close();
    used.addAndGet(-bytes);
  }

  @Override
  public long capacity() {
    return capacity;
  }

  @Override
  public long used() {
    return used.get();
  }

  @Override
  public long maxBufferBytes() {
    return PinnedBlock.MAX_BYTES;
  }
}
