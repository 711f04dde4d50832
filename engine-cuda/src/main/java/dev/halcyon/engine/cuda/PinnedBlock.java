package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cudaFreeHost;
import static org.bytedeco.cuda.global.cudart.cudaGetLastError;
import static org.bytedeco.cuda.global.cudart.cudaHostAlloc;
import static org.bytedeco.cuda.global.cudart.cudaHostRegister;
import static org.bytedeco.cuda.global.cudart.cudaHostUnregister;

import dev.halcyon.engine.EngineException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.stream.IntStream;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.Pointer;

/**
 * Page-locked host memory, which the device copies from and to by itself. The driver gives small
 * blocks; it touches the pages of large ones one after the other, which takes most of the time, so
 * these come from the C library, are touched by several threads, and then locked.
 */
final class PinnedBlock implements AutoCloseable {

  /** The largest block: what one ByteBuffer can address, down to a page border. */
  static final long MAX_BYTES = Integer.MAX_VALUE - 4095L;

  /** From here on blocks are touched by several threads. */
  static final long LARGE_BYTES = 16L << 20;

  private static final int PAGE_BYTES = 4096;

  private final CudaDevice device;
  private final Pointer registered;
  private DevicePointer address;
  private ByteBuffer bytes;

  /**
   * @param registered what the C library gave, or null where the driver did
   */
  private PinnedBlock(
      CudaDevice device, DevicePointer address, ByteBuffer bytes, Pointer registered) {
    this.device = device;
    this.address = address;
    this.bytes = bytes;
    this.registered = registered;
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
    PinnedBlock block = size < LARGE_BYTES ? null : register(device, size);
    return block != null ? block : fromDriver(device, size);
  }

  /**
   * As {@link #allocate}, for what can't do without.
   *
   * @param purpose what it is for, as in "loading weights"
   * @throws EngineException if the system can't give or lock that much
   */
  static PinnedBlock require(CudaDevice device, long size, String purpose) {
    PinnedBlock block = allocate(device, size);
    if (block == null) {
      throw new EngineException(
          "The system can't lock " + size + " bytes of memory for " + purpose);
    }
    return block;
  }

  private static PinnedBlock fromDriver(CudaDevice device, long size) {
    DevicePointer address = new DevicePointer();
    int code = cudaHostAlloc(address, Math.max(1, size), cudart.cudaHostAllocPortable);
    if (code == cudart.cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return null;
    }
    CudaErrors.check(code, "allocating pinned host memory");
    return new PinnedBlock(device, address, view(address, size), null);
  }

  /** Null if that can't be done here; the driver may still have a way. */
  private static PinnedBlock register(CudaDevice device, long size) {
    Pointer memory = Pointer.malloc(size + PAGE_BYTES - 1);
    if (memory == null || memory.isNull()) {
      return null;
    }
    DevicePointer address =
        new DevicePointer(memory.address() + PAGE_BYTES - 1 & -(long) PAGE_BYTES);
    ByteBuffer bytes = view(address, size);
    touch(bytes);
    if (cudaHostRegister(address, size, cudart.cudaHostRegisterPortable) != 0) {
      cudaGetLastError();
      Pointer.free(memory);
      return null;
    }
    return new PinnedBlock(device, address, bytes, memory);
  }

  private static ByteBuffer view(DevicePointer address, long size) {
    ByteBuffer bytes = new BytePointer(address).capacity(Math.max(1, size)).asByteBuffer();
    bytes.limit((int) size);
    return bytes.slice().order(ByteOrder.LITTLE_ENDIAN);
  }

  /** Has the system find a page for each address. */
  private static void touch(ByteBuffer bytes) {
    int pages = (bytes.capacity() + PAGE_BYTES - 1) / PAGE_BYTES;
    IntStream.range(0, pages).parallel().forEach(page -> bytes.put(page * PAGE_BYTES, (byte) 0));
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
    if (address == null) {
      return;
    }
    boolean unlocked =
        cudart.cudaSetDevice(device.index()) == 0
            && (registered == null ? cudaFreeHost(address) : cudaHostUnregister(address)) == 0;
    if (!unlocked) {
      cudaGetLastError();
    }
    if (registered != null) {
      Pointer.free(registered);
    }
    address = null;
    bytes = null;
  }
}
