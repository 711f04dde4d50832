package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.logits.DeviceBuffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.Objects;

/**
 * Native memory, or a part of another buffer's: float32 elements but for operations that name
 * another type.
 */
final class CpuBuffer implements DeviceBuffer {

  private final Allocation allocation;
  private final boolean part;
  private final long offset;
  private final long size;
  private final ByteBuffer bytes;
  private final FloatBuffer floats;

  private CpuBuffer(Allocation allocation, boolean part, long offset, long size, ByteBuffer bytes) {
    this.allocation = allocation;
    this.part = part;
    this.offset = offset;
    this.size = size;
    this.bytes = bytes;
    this.floats = bytes.asFloatBuffer();
  }

  /** A buffer that owns a block of the budget's. */
  static CpuBuffer of(NativeBudget budget, NativeBlock block, long size, String purpose) {
    ByteBuffer bytes = block.bytes();
    return new CpuBuffer(new Allocation(budget, block, size, purpose), false, 0, size, bytes);
  }

  /** What a buffer and its parts share. */
  private static final class Allocation {
    private final NativeBudget budget;
    private final long size;
    private final String purpose;
    private volatile NativeBlock block;

    Allocation(NativeBudget budget, NativeBlock block, long size, String purpose) {
      this.budget = budget;
      this.block = block;
      this.size = size;
      this.purpose = purpose;
    }

    void requireOpen() {
      if (block == null) {
        throw new IllegalStateException("The buffer for " + purpose + " is closed");
      }
    }

    synchronized void close() {
      NativeBlock open = block;
      if (open != null) {
        block = null;
        budget.free(open, size);
      }
    }
  }

  /**
   * The elements of an operation's argument, by absolute index.
   *
   * @param needed how many elements the operation will use
   * @param name the argument's name, for messages
   * @throws IllegalArgumentException if the buffer is too small, of another backend, or a part that
   *     does not begin at an element
   * @throws IllegalStateException if it is closed
   */
  static FloatBuffer floats(DeviceBuffer buffer, long needed, String name) {
    return of(buffer, needed, Float.BYTES, name).floats;
  }

  /**
   * The bytes of an operation's argument, by absolute index.
   *
   * @param needed how many elements the operation will use
   * @param elementBytes the size of one
   * @see #floats(DeviceBuffer, long, String)
   */
  static ByteBuffer bytes(DeviceBuffer buffer, long needed, int elementBytes, String name) {
    return of(buffer, needed, elementBytes, name).bytes;
  }

  private static CpuBuffer of(DeviceBuffer buffer, long needed, int elementBytes, String name) {
    if (!(buffer instanceof CpuBuffer cpu)) {
      throw new IllegalArgumentException(name + " is not a buffer of the CPU backend: " + buffer);
    }
    cpu.allocation.requireOpen();
    if (cpu.offset % elementBytes != 0) {
      throw new IllegalArgumentException(
          name + " " + cpu + " begins inside an element of " + elementBytes + " bytes");
    }
    if (needed < 0 || needed > cpu.size / elementBytes) {
      throw new IllegalArgumentException(
          name
              + " "
              + cpu
              + " holds "
              + cpu.size / elementBytes
              + " elements of "
              + elementBytes
              + " bytes, the operation needs "
              + needed);
    }
    return cpu;
  }

  /**
   * Requires that an operation's output does not lie where its input does.
   *
   * @throws IllegalArgumentException if they share memory
   */
  static void requireApart(
      DeviceBuffer in, long inBytes, String inName, DeviceBuffer out, long outBytes) {
    if (in instanceof CpuBuffer from
        && out instanceof CpuBuffer to
        && from.allocation == to.allocation
        && from.offset < to.offset + outBytes
        && to.offset < from.offset + inBytes) {
      throw new IllegalArgumentException("out must not be " + inName + ", nor overlap it");
    }
  }

  FloatBuffer floats() {
    allocation.requireOpen();
    return floats;
  }

  @Override
  public CpuBuffer slice(long from, long count) {
    allocation.requireOpen();
    Objects.checkFromIndexSize(from, count, size);
    ByteBuffer view = bytes.slice((int) from, (int) count).order(ByteOrder.nativeOrder());
    return new CpuBuffer(allocation, true, offset + from, count, view);
  }

  @Override
  public long bytes() {
    return size;
  }

  @Override
  public void close() {
    if (!part) {
      allocation.close();
    }
  }

  @Override
  public String toString() {
    return "CpuBuffer["
        + allocation.purpose
        + ", "
        + size
        + " bytes"
        + (part ? " from " + offset : "")
        + "]";
  }
}
