package dev.halcyon.engine.cuda;

import com.sun.management.OperatingSystemMXBean;
import dev.halcyon.engine.logits.HostMemory;
import dev.halcyon.engine.logits.OutOfHostMemoryException;
import java.lang.management.ManagementFactory;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Pinned host memory with a budget, which holds anything at first. Buffers outlive the backend;
 * what is kept for next ones, within the budget too, does not.
 */
final class CudaHostMemory implements HostMemory, AutoCloseable {

  private static final int PART_OF_MACHINE = 4;

  private final CudaDevice device;
  private final long capacity;
  private final AtomicLong used = new AtomicLong();
  private final PinnedCache cache = new PinnedCache();

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
      block = take(bytes);
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

  /** A block for bytes that are reserved; null if the system can't give one. */
  private PinnedBlock take(long bytes) {
    PinnedBlock block = cache.take(bytes);
    if (block != null && !reserve(block.bytes().capacity() - bytes)) {
      cache.give(block);
      block = null;
    }
    if (block == null) {
      cache.shrink(Math.max(0, capacity - used.get()));
      block = PinnedBlock.allocate(device, bytes);
    }
    if (block == null && cache.held() > 0) {
      cache.shrink(0);
      block = PinnedBlock.allocate(device, bytes);
    }
    return block;
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
  void free(PinnedBlock block) {
    long bytes = block.bytes().capacity();
    cache.give(block);
    used.addAndGet(-bytes);
  }

  /** The bytes kept for next buffers. */
  long kept() {
    return cache.held();
  }

  /** Frees what is kept. */
  @Override
  public void close() {
    cache.close();
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
