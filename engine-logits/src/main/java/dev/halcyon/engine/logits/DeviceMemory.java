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

  /** The budget in bytes. */
  long capacity();

  /** The bytes held by buffers that are not closed yet. */
  long used();

  /** The largest single buffer in bytes that this memory can give. */
  long maxBufferBytes();
}
