package dev.halcyon.engine.logits;

/**
 * A piece of device memory, opaque to everybody but the backend that allocated it. Its owner frees
 * it with {@link #close()}, from any thread; closing twice is harmless.
 */
public interface DeviceBuffer extends AutoCloseable {

  /** The size in bytes. */
  long bytes();

  /**
   * A part of this buffer as a buffer of its own, over the same memory. It is valid until this one
   * is closed; closing the part frees nothing.
   *
   * @param offset where it begins, in bytes from this buffer's start; a whole number of elements
   * @param bytes its size
   * @throws IndexOutOfBoundsException if it does not lie inside this buffer
   */
  DeviceBuffer slice(long offset, long bytes);

  /**
   * Returns the memory to its {@link DeviceMemory}. Operations that the device's owner called
   * before are not disturbed: it need not wait for them.
   */
  @Override
  void close();
}
