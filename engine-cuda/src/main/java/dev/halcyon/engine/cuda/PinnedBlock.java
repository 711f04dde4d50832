package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cudaFreeHost;
import static org.bytedeco.cuda.global.cudart.cudaGetLastError;
import static org.bytedeco.cuda.global.cudart.cudaHostAlloc;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.BytePointer;

/** Page-locked host memory, which the device copies from and to by itself. */
final class PinnedBlock implements AutoCloseable {

  /** The largest block: what one ByteBuffer can address, down to a page border. */
  static final long MAX_BYTES = Integer.MAX_VALUE - 4095L;

  private final CudaDevice device;
  private DevicePointer address;
  private ByteBuffer bytes;

  private PinnedBlock(CudaDevice device, DevicePointer address, ByteBuffer bytes) {
    this.device = device;
    this.address = address;
    this.bytes = bytes;
  }

  /**
   * Allocates memory that holds anything.
   *
   * @param size in bytes, from 0 to {@link #MAX_BYTES}
   * @return null if the system can't give or lock that much
   */
  static PinnedBlock allocate(CudaDevice device, long size) {
    if (size < 0 || size > MAX_BYTES) {
      throw new IllegalArgumentException("size " + size + " is outside 0 to " + MAX_BYTES);
    }
    device.makeCurrent();
    DevicePointer address = new DevicePointer();
    int code = cudaHostAlloc(address, Math.max(1, size), cudart.cudaHostAllocPortable);
    if (code == cudart.cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return null;
    }
    CudaErrors.check(code, "allocating pinned host memory");
    ByteBuffer bytes = new BytePointer(address).capacity(Math.max(1, size)).asByteBuffer();
    bytes.limit((int) size);
    return new PinnedBlock(device, address, bytes.slice().order(ByteOrder.LITTLE_ENDIAN));
  }

  /** The memory; never to be used after {@link #close()}. */
  ByteBuffer bytes() {
    return bytes;
  }

  /** Where it is. */
  DevicePointer address() {
    return address;
  }

  /** Frees it; errors of a device that is lost are no news here. */
  @Override
  public void close() {
    if (address != null) {
      if (cudart.cudaSetDevice(device.index()) != 0 || cudaFreeHost(address) != 0) {
        cudaGetLastError();
      }
      address = null;
      bytes = null;
    }
  }
}
