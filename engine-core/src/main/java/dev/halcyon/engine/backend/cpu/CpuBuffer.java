package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.logits.DeviceBuffer;
import java.nio.FloatBuffer;

/** Float32 elements in native memory. */
final class CpuBuffer implements DeviceBuffer {

  private final CpuMemory memory;
  private final long size;
  private final String purpose;
  private NativeBlock block;
  private FloatBuffer floats;

  CpuBuffer(CpuMemory memory, NativeBlock block, long size, String purpose) {
    this.memory = memory;
    this.block = block;
    this.size = size;
    this.purpose = purpose;
    this.floats = block.bytes().asFloatBuffer();
  }

  /**
   * The elements of an operation's argument, by absolute index.
   *
   * @param needed how many elements the operation will use
   * @param name the argument's name, for messages
   * @throws IllegalArgumentException if the buffer is too small or of another backend
   * @throws IllegalStateException if it is closed
   */
  static FloatBuffer floats(DeviceBuffer buffer, long needed, String name) {
    if (!(buffer instanceof CpuBuffer cpu)) {
      throw new IllegalArgumentException(name + " is not a buffer of the CPU backend: " + buffer);
    }
    FloatBuffer floats = cpu.floats();
    if (needed < 0 || needed > floats.limit()) {
      throw new IllegalArgumentException(
          name
              + " ("
              + cpu.purpose
              + ") holds "
              + floats.limit()
              + " float32 elements, the operation needs "
              + needed);
    }
    return floats;
  }

  FloatBuffer floats() {
    FloatBuffer open = floats;
    if (open == null) {
      throw new IllegalStateException("The buffer for " + purpose + " is closed");
    }
    return open;
  }

  @Override
  public long bytes() {
    return size;
  }

  @Override
  public synchronized void close() {
    if (block != null) {
      floats = null;
      block.close();
      block = null;
      memory.release(size);
    }
  }

  @Override
  public String toString() {
    return "CpuBuffer[" + purpose + ", " + size + " bytes]";
  }
}
