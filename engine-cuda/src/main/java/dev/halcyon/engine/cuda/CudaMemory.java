package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cudaFreeAsync;
import static org.bytedeco.cuda.global.cudart.cudaGetLastError;
import static org.bytedeco.cuda.global.cudart.cudaMallocFromPoolAsync;
import static org.bytedeco.cuda.global.cudart.cudaMemGetInfo;
import static org.bytedeco.cuda.global.cudart.cudaMemPoolCreate;
import static org.bytedeco.cuda.global.cudart.cudaMemPoolDestroy;
import static org.bytedeco.cuda.global.cudart.cudaMemPoolGetAttribute;
import static org.bytedeco.cuda.global.cudart.cudaMemPoolSetAttribute;
import static org.bytedeco.cuda.global.cudart.cudaMemPoolTrimTo;
import static org.bytedeco.cuda.global.cudart.cudaMemsetAsync;

import dev.halcyon.engine.logits.DeviceMemory;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.bytedeco.cuda.cudart.CUmemPoolHandle_st;
import org.bytedeco.cuda.cudart.cudaMemLocation;
import org.bytedeco.cuda.cudart.cudaMemPoolProps;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.LongPointer;
import org.bytedeco.javacpp.SizeTPointer;

/**
 * The device memory of one engine: a pool of its own, which allocates and frees in the order of the
 * compute stream. Freed memory stays in the pool for the next allocation, without a call to the
 * driver, and goes back to the device when an allocation would fail otherwise. The budget counts
 * the bytes asked for.
 */
final class CudaMemory implements DeviceMemory, AutoCloseable {

  /**
   * What the automatic budget leaves: cuBLAS, modules and the allocator's rounding need some, and
   * so does whatever else uses the card.
   */
  private static final long LEAST_MARGIN = 512L << 20;

  private static final int MARGIN_DIVISOR = 50;

  private final CudaContext context;
  private final CUmemPoolHandle_st pool;
  private final long capacity;
  private final AtomicLong used = new AtomicLong();
  private final AtomicLong own = new AtomicLong();
  private final AtomicLong peak = new AtomicLong();

  /** Numbers what the backend allocates for itself. */
  private final AtomicLong ownNumber = new AtomicLong();

  /** How much of that a recorded step may use, and how much of it was freed since. */
  private volatile long recordedOwn;

  private volatile long recordedFreed;

  /** The owner thread's, while it records: what may not be freed within a graph. */
  private List<Long> freedWhileRecording;

  private boolean closing;

  /**
   * @param capacity the budget in bytes; 0 for what is free on the device now, less a margin of 2 %
   *     and at least 512 MiB
   */
  CudaMemory(CudaContext context, long capacity) {
    if (capacity < 0) {
      throw new IllegalArgumentException("memoryBytes must not be negative, is " + capacity);
    }
    this.context = context;
    this.capacity = capacity == 0 ? freeLessMargin() : capacity;
    this.pool = createPool();
  }

  private long freeLessMargin() {
    long free = freeOnDevice();
    return Math.max(0, free - Math.max(LEAST_MARGIN, free / MARGIN_DIVISOR));
  }

  private long freeOnDevice() {
    try (SizeTPointer free = new SizeTPointer(1);
        SizeTPointer total = new SizeTPointer(1)) {
      context.check(cudaMemGetInfo(free, total), "reading how much device memory is free");
      return free.get();
    }
  }

  private CUmemPoolHandle_st createPool() {
    CUmemPoolHandle_st created = new CUmemPoolHandle_st();
    try (cudaMemPoolProps props = new cudaMemPoolProps();
        cudaMemLocation location = new cudaMemLocation();
        LongPointer keepAll = new LongPointer(1)) {
      location.type(cudart.cudaMemLocationTypeDevice).id(context.device().index());
      org.bytedeco.javacpp.Pointer.memset(props, 0, props.sizeof());
      props
          .allocType(cudart.cudaMemAllocationTypePinned)
          .handleTypes(cudart.cudaMemHandleTypeNone)
          .location(location);
      context.check(cudaMemPoolCreate(created, props), "creating a memory pool");
      keepAll.put(-1L);
      context.check(
          cudaMemPoolSetAttribute(created, cudart.cudaMemPoolAttrReleaseThreshold, keepAll),
          "setting up a memory pool");
    }
    return created;
  }

  @Override
  public CudaBuffer allocate(long bytes, String purpose) {
    return zeroed(allocateUninitialized(bytes, purpose));
  }

  /** A new buffer, zeroed; closed if that fails. */
  private CudaBuffer zeroed(CudaBuffer buffer) {
    try {
      zero(buffer);
      return buffer;
    } catch (RuntimeException | Error e) {
      buffer.close();
      throw e;
    }
  }

  private void zero(CudaBuffer buffer) {
    if (buffer.bytes() > 0) {
      context.gate().lock();
      try {
        context.check(
            cudaMemsetAsync(
                new DevicePointer(buffer.address()), 0, buffer.bytes(), context.compute()),
            "zeroing memory");
      } finally {
        context.gate().unlock();
      }
    }
  }

  @Override
  public CudaBuffer allocateUninitialized(long bytes, String purpose) {
    if (bytes < 0) {
      throw new IllegalArgumentException(
          "bytes must not be negative, is " + bytes + ": " + purpose);
    }
    if (!reserve(bytes)) {
      throw new OutOfDeviceMemoryException(purpose, bytes, Math.max(0, capacity - used.get()));
    }
    return allocateReserved(bytes, purpose, used, () -> {});
  }

  /**
   * Allocates what the backend needs for itself, such as workspace of cuBLAS. The budget does not
   * count it, as it does not count what the driver takes; the automatic budget leaves room for it.
   */
  CudaBuffer allocateOwn(long bytes, String purpose) {
    own.addAndGet(bytes);
    long number = ownNumber.incrementAndGet();
    return allocateReserved(bytes, purpose, own, () -> ownFreed(number));
  }

  private void ownFreed(long number) {
    if (number <= recordedOwn) {
      context.gate().lock();
      recordedFreed++;
      context.gate().unlock();
    }
  }

  /** Notes that a recorded step may use all that the backend holds for itself now. */
  void markRecorded() {
    recordedOwn = ownNumber.get();
  }

  /** Grows when something was freed that a recorded step may use. */
  long recordedFreed() {
    return recordedFreed;
  }

  /**
   * Says that the owner thread, which holds the gate, records from now on, or no longer does.
   * Nothing is allocated meanwhile, and what is freed is freed behind it.
   */
  void recording(boolean on) {
    if (on) {
      freedWhileRecording = new ArrayList<>();
    } else {
      List<Long> late = freedWhileRecording;
      freedWhileRecording = null;
      late.forEach(this::freeInOrder);
    }
  }

  /** As {@link #allocateOwn}, of zeros. */
  CudaBuffer allocateOwnZeroed(long bytes, String purpose) {
    return zeroed(allocateOwn(bytes, purpose));
  }

  /**
   * @param account what the bytes were added to, and are taken from when they are free again
   * @param freed called when they are
   */
  private CudaBuffer allocateReserved(
      long bytes, String purpose, AtomicLong account, Runnable freed) {
    long address = 0;
    boolean done = bytes == 0;
    try {
      if (!done) {
        context.enter();
        address = allocateFromPool(bytes, purpose);
        done = address != 0;
      }
    } finally {
      if (!done) {
        account.addAndGet(-bytes);
      }
    }
    if (!done) {
      throw new OutOfDeviceMemoryException(
          purpose, bytes, Math.max(0, Math.min(freeOnDevice(), capacity - used.get())));
    }
    peak.accumulateAndGet(used.get() + own.get(), Math::max);
    long held = address;
    return CudaBuffer.of(
        held,
        bytes,
        purpose,
        () -> {
          freed.run();
          free(held, bytes, account);
        });
  }

  private boolean reserve(long bytes) {
    while (true) {
      long held = used.get();
      if (bytes > capacity - held) {
        return false;
      }
      if (used.compareAndSet(held, held + bytes)) {
        return true;
      }
    }
  }

  /** Returns 0 if there is no room, even after all that is cached went back to the device. */
  private long allocateFromPool(long bytes, String purpose) {
    context.gate().lock();
    try {
      requireOpen();
      if (freedWhileRecording != null) {
        throw new NotRecordableException(
            "an operation allocates "
                + bytes
                + " bytes for "
                + purpose
                + " each time it is called");
      }
      long address = tryAllocate(bytes);
      if (address == 0) {
        context.synchronize();
        context.check(cudaMemPoolTrimTo(pool, 0), "giving cached memory back");
        address = tryAllocate(bytes);
      }
      return address;
    } finally {
      context.gate().unlock();
    }
  }

  private long tryAllocate(long bytes) {
    DevicePointer address = new DevicePointer();
    int code = cudaMallocFromPoolAsync(address, bytes, pool, context.compute());
    if (code == cudart.cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return 0;
    }
    context.check(code, "allocating device memory");
    return address.address();
  }

  private void requireOpen() {
    if (context.closed()) {
      throw new IllegalStateException("The CUDA backend is closed");
    }
  }

  /** Takes memory back, once, from any thread. */
  private void free(long address, long bytes, AtomicLong account) {
    account.addAndGet(-bytes);
    if (address == 0) {
      return;
    }
    context.gate().lock();
    try {
      if (!context.closed() && !context.broken()) {
        context.enter();
        context.downloads().beforeReuse(address, bytes);
        if (freedWhileRecording != null) {
          freedWhileRecording.add(address);
        } else {
          freeInOrder(address);
        }
      } else if (context.closed()) {
        freeAfterClose(address);
      }
    } finally {
      context.gate().unlock();
    }
  }

  private void freeInOrder(long address) {
    context.check(
        cudaFreeAsync(new DevicePointer(address), context.compute()), "freeing device memory");
  }

  /** The stream is gone, and all its work done: the last buffer's end is the pool's too. */
  private void freeAfterClose(long address) {
    cudart.cudaSetDevice(context.device().index());
    cudart.cudaFree(new DevicePointer(address));
    cudaGetLastError();
    destroyWhenEmpty();
  }

  private void destroyWhenEmpty() {
    if (closing && used.get() + own.get() == 0 && !pool.isNull()) {
      cudaMemPoolDestroy(pool);
      pool.setNull();
      cudaGetLastError();
    }
  }

  @Override
  public long capacity() {
    return capacity;
  }

  @Override
  public long used() {
    return used.get();
  }

  @Override
  public long maxBufferBytes() {
    return capacity;
  }

  @Override
  public long peak() {
    return peak.get();
  }

  @Override
  public long overhead() {
    return own.get();
  }

  /** What the budget leaves, or what the device and the pool have where that is less. */
  @Override
  public long available() {
    context.enter();
    long cached = Math.max(0, reserved() - used.get() - own.get());
    return Math.max(0, Math.min(capacity - used.get(), freeOnDevice() + cached));
  }

  /** The bytes that the pool holds of the device: those of buffers, and those kept for the next. */
  long reserved() {
    context.gate().lock();
    try (LongPointer value = new LongPointer(1)) {
      if (pool.isNull()) {
        return 0;
      }
      context.enter();
      context.check(
          cudaMemPoolGetAttribute(pool, cudart.cudaMemPoolAttrReservedMemCurrent, value),
          "reading what a memory pool holds");
      return value.get();
    } finally {
      context.gate().unlock();
    }
  }

  /**
   * Gives the pool back to the device, at once or when the last buffer is closed. The context is
   * closed before.
   */
  @Override
  public void close() {
    context.gate().lock();
    try {
      closing = true;
      cudart.cudaSetDevice(context.device().index());
      if (!context.broken() && !pool.isNull()) {
        cudaMemPoolTrimTo(pool, 0);
      }
      destroyWhenEmpty();
    } finally {
      context.gate().unlock();
    }
  }
}
