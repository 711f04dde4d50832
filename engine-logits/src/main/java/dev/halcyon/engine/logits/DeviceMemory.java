package dev.halcyon.engine.logits;

/** A device's memory with a budget: running out is an ordinary, typed event. */
public interface DeviceMemory {

  /**
   * Allocates zeroed memory.
   *
   * @param bytes the size in bytes, not negative
   * @param purpose what the memory is for, named in the error
   * @throws OutOfDeviceMemoryException if the budget or the device has no room; nothing is held
   *     then
   */
  DeviceBuffer allocate(long bytes, String purpose);

  /**
   * Allocates memory that may hold anything, for those who write all of it before it is read. By
   * default it is zeroed.
   *
   * @throws OutOfDeviceMemoryException as {@link #allocate}
   */
  default DeviceBuffer allocateUninitialized(long bytes, String purpose) {
    return allocate(bytes, purpose);
  }

  /** The budget in bytes. */
  long capacity();

  /** The bytes held by buffers that are not closed yet. */
  long used();

  /** The most bytes that were held at once, {@link #overhead()} included. */
  long peak();

  /** The bytes that the device's software holds for itself, beside the budget. */
  default long overhead() {
    return 0;
  }

  /** The bytes that can be allocated now, as far as that is known. */
  default long available() {
    return Math.max(0, capacity() - used());
  }

  /** The largest single buffer in bytes that this memory can give. */
  long maxBufferBytes();
}
