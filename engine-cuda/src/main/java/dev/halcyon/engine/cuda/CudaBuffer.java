package dev.halcyon.engine.cuda;

import dev.halcyon.engine.logits.DeviceBuffer;
import java.util.Objects;

/** Device memory, or a part of another buffer's. */
final class CudaBuffer implements DeviceBuffer {

  private final Allocation allocation;
  private final boolean part;
  private final long offset;
  private final long size;

  private CudaBuffer(Allocation allocation, boolean part, long offset, long size) {
    this.allocation = allocation;
    this.part = part;
    this.offset = offset;
    this.size = size;
  }

  /**
   * A buffer that owns memory.
   *
   * @param free frees it, called once
   */
  static CudaBuffer of(long address, long size, String purpose, Runnable free) {
    return new CudaBuffer(new Allocation(address, purpose, free), false, 0, size);
  }

  /** What a buffer and its parts share. */
  private static final class Allocation {
    private final long address;
    private final String purpose;
    private final Runnable free;
    private volatile boolean closed;

    Allocation(long address, String purpose, Runnable free) {
      this.address = address;
      this.purpose = purpose;
      this.free = free;
    }

    void requireOpen() {
      if (closed) {
        throw new IllegalStateException("The buffer for " + purpose + " is closed");
      }
    }

    synchronized void close() {
      if (!closed) {
        closed = true;
        free.run();
      }
    }
  }

  /**
   * The address of an operation's argument.
   *
   * @param elements how many elements the operation will use
   * @param elementBytes the size of one
   * @param name the argument's name, for messages
   * @throws IllegalArgumentException if the buffer is too small, of another backend, or a part that
   *     does not begin at an element
   * @throws IllegalStateException if it is closed
   */
  static long address(DeviceBuffer buffer, long elements, int elementBytes, String name) {
    if (!(buffer instanceof CudaBuffer cuda)) {
      throw new IllegalArgumentException(name + " is not a buffer of the CUDA backend: " + buffer);
    }
    cuda.allocation.requireOpen();
    if (cuda.offset % elementBytes != 0) {
      throw new IllegalArgumentException(
          name + " " + cuda + " begins inside an element of " + elementBytes + " bytes");
    }
    if (elements < 0 || elements > cuda.size / elementBytes) {
      throw new IllegalArgumentException(
          name
              + " "
              + cuda
              + " holds "
              + cuda.size / elementBytes
              + " elements of "
              + elementBytes
              + " bytes, the operation needs "
              + elements);
    }
    return cuda.allocation.address + cuda.offset;
  }

  /**
   * Requires that an operation's output does not lie where its input does.
   *
   * @throws IllegalArgumentException if they share memory
   */
  static void requireApart(
      DeviceBuffer in, long inBytes, String inName, DeviceBuffer out, long outBytes) {
    if (in instanceof CudaBuffer from
        && out instanceof CudaBuffer to
        && from.allocation == to.allocation
        && from.offset < to.offset + outBytes
        && to.offset < from.offset + inBytes) {
      throw new IllegalArgumentException("out must not be " + inName + ", nor overlap it");
    }
  }

  long address() {
    allocation.requireOpen();
    return allocation.address + offset;
  }

  @Override
  public CudaBuffer slice(long from, long count) {
    allocation.requireOpen();
    Objects.checkFromIndexSize(from, count, size);
    return new CudaBuffer(allocation, true, offset + from, count);
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
    return "CudaBuffer["
        + allocation.purpose
        + ", "
        + size
        + " bytes"
        + (part ? " from " + offset : "")
        + "]";
  }
}
