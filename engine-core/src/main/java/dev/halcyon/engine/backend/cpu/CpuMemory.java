package dev.halcyon.engine.backend.cpu;

import com.sun.management.OperatingSystemMXBean;
import dev.halcyon.engine.logits.DeviceMemory;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import java.lang.management.ManagementFactory;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Native memory with a budget. The budget counts the sizes of open buffers, whether or not their
 * pages were touched yet.
 */
final class CpuMemory implements DeviceMemory {

  private final long capacity;
  private final AtomicLong used = new AtomicLong();

  /**
   * @param capacity the budget in bytes; 0 for half of the machine's (or container's) physical
   *     memory
   */
  CpuMemory(long capacity) {
    if (capacity < 0) {
      throw new IllegalArgumentException("memoryBytes must not be negative, is " + capacity);
    }
    this.capacity = capacity == 0 ? physicalBytes() / 2 : capacity;
  }

  private static long physicalBytes() {
    return ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getTotalMemorySize();
  }

  @Override
  public CpuBuffer allocate(long bytes, String purpose) {
    if (bytes < 0) {
      throw new IllegalArgumentException(
          "bytes must not be negative, is " + bytes + ": " + purpose);
    }
    if (bytes > NativeBlock.MAX_BYTES || !reserve(bytes)) {
      throw outOfMemory(bytes, purpose);
    }
    NativeBlock block = null;
    try {
      block = NativeBlock.allocate(bytes);
    } finally {
      if (block == null) {
        release(bytes);
      }
    }
    if (block == null) {
      throw outOfMemory(bytes, purpose);
    }
    return new CpuBuffer(this, block, bytes, purpose);
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

  private OutOfDeviceMemoryException outOfMemory(long bytes, String purpose) {
    return new OutOfDeviceMemoryException(
        purpose, bytes, Math.min(capacity - used.get(), NativeBlock.MAX_BYTES));
  }

  /** Called once by each buffer, when it is closed. */
  void release(long bytes) {
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
    return NativeBlock.MAX_BYTES;
  }
}
