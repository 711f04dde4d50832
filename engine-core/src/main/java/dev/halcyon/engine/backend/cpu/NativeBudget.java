package dev.halcyon.engine.backend.cpu;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Native memory with a budget, for any thread. The budget counts the sizes of blocks that are not
 * freed yet, whether or not their pages were touched.
 */
final class NativeBudget {

  private final long capacity;
  private final AtomicLong used = new AtomicLong();
  private final AtomicLong peak = new AtomicLong();

  /**
   * @param capacity in bytes; 0 for a part of the machine's (or container's) physical memory
   * @param divisor which part: this one's reciprocal
   * @param name the option that capacity comes from, for messages
   */
  NativeBudget(long capacity, int divisor, String name) {
    if (capacity < 0) {
      throw new IllegalArgumentException(name + " must not be negative, is " + capacity);
    }
    this.capacity = capacity == 0 ? physicalBytes() / divisor : capacity;
  }

  private static long physicalBytes() {
    return ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getTotalMemorySize();
  }

  /**
   * Allocates a zeroed block, which {@link #free} takes back.
   *
   * @param purpose for messages
   * @return null if the budget or the system has no room; nothing is held then
   */
  NativeBlock allocate(long bytes, String purpose) {
    if (bytes < 0) {
      throw new IllegalArgumentException(
          "bytes must not be negative, is " + bytes + ": " + purpose);
    }
    if (bytes > NativeBlock.MAX_BYTES || !reserve(bytes)) {
      return null;
    }
    NativeBlock block = null;
    try {
      block = NativeBlock.allocate(bytes);
      if (block != null) {
        peak.accumulateAndGet(used.get(), Math::max);
      }
    } finally {
      if (block == null) {
        used.addAndGet(-bytes);
      }
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

  /**
   * Frees a block, once.
   *
   * @param bytes what it was allocated with
   */
  void free(NativeBlock block, long bytes) {
    block.close();
    used.addAndGet(-bytes);
  }

  long capacity() {
    return capacity;
  }

  long used() {
    return used.get();
  }

  /** The most that was used at once. */
  long peak() {
    return peak.get();
  }

  /** The largest block that may be allocated now. */
  long available() {
    return Math.min(capacity - used.get(), NativeBlock.MAX_BYTES);
  }
}
