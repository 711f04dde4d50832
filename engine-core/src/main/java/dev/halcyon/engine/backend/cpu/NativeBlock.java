package dev.halcyon.engine.backend.cpu;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.Pointer;

/**
 * Zeroed native memory from the C library: freed the moment it is closed, and, unlike direct
 * buffers of the JDK, neither capped by the heap's size nor touched before its first use. The raw
 * calloc is used, which JavaCPP's own limits on tracked memory do not apply to.
 */
final class NativeBlock implements AutoCloseable {

  /** The largest block: what one ByteBuffer can address, down to a page border. */
  static final long MAX_BYTES = Integer.MAX_VALUE - 4095L;

  private Pointer address;
  private ByteBuffer bytes;

  private NativeBlock(Pointer address, ByteBuffer bytes) {
    this.address = address;
    this.bytes = bytes;
  }

  /**
   * @param size in bytes, from 0 to {@link #MAX_BYTES}
   * @return null if the system has no memory left
   */
  static NativeBlock allocate(long size) {
    if (size < 0 || size > MAX_BYTES) {
      throw new IllegalArgumentException("size " + size + " is outside 0 to " + MAX_BYTES);
    }
    Pointer address = Pointer.calloc(Math.max(1, size), 1);
    if (address == null || address.isNull()) {
      return null;
    }
    ByteBuffer bytes = new BytePointer(address).capacity(Math.max(1, size)).asByteBuffer();
    bytes.limit((int) size);
    return new NativeBlock(address, bytes.slice().order(ByteOrder.nativeOrder()));
  }

  /** The memory; never to be used after {@link #close()}. */
  ByteBuffer bytes() {
    return bytes;
  }

  @Override
  public void close() {
    if (address != null) {
      Pointer.free(address);
      address = null;
      bytes = null;
    }
  }
}
