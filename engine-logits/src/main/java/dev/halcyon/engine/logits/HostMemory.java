package dev.halcyon.engine.logits;

/**
 * Host memory with a budget, for results that the device has no room for; pinned where the backend
 * has that. It may be used after the engine that it came from has closed.
 */
public interface HostMemory {

  /**
   * Allocates memory that holds anything, from any thread.
   *
   * @param bytes the size in bytes, not negative
   * @param purpose what the memory is for, named in the error
   * @throws OutOfHostMemoryException if the budget or the machine has no room; nothing is held then
   */
  HostBuffer allocate(long bytes, String purpose);

  /** The budget in bytes. */
  long capacity();

  /** The bytes held by buffers that are not closed yet. */
  long used();

  /** The largest single buffer in bytes that this memory can give. */
  long maxBufferBytes();
}
