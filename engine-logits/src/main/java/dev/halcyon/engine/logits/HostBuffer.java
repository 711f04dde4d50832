package dev.halcyon.engine.logits;

/**
 * Float32 elements in host memory outside of the Java heap. Its owner frees it with {@link
 * #close()}, from any thread, but never while another one reads or writes; closing twice is
 * harmless.
 */
public interface HostBuffer extends AutoCloseable {

  /** The size in bytes. */
  long bytes();

  /**
   * Copies elements out.
   *
   * @param first index of the first one
   * @throws IndexOutOfBoundsException if they don't lie inside the buffer or the array
   * @throws IllegalStateException if the buffer is closed
   */
  void read(long first, float[] to, int toIndex, int count);

  /**
   * Copies elements in.
   *
   * @param first index of the first one
   * @throws IndexOutOfBoundsException if they don't lie inside the buffer or the array
   * @throws IllegalStateException if the buffer is closed
   */
  void write(long first, float[] from, int fromIndex, int count);

  /** Returns the memory to its {@link HostMemory}. */
  @Override
  void close();
}
