package dev.halcyon.engine.logits;

/**
 * A piece of device memory, opaque to everybody but the backend that allocated it. Its owner frees
 * it with {@link #close()}; closing twice is harmless.
 */
public interface DeviceBuffer extends AutoCloseable {

  /** The size in bytes. */
  long bytes();

  /** Returns the memory to its {@link DeviceMemory}. */
  @Override
  void close();
}
