package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cuLaunchKernel;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerPointer;
import org.bytedeco.javacpp.SizeTPointer;

/**
 * Starts kernels: {@code launch.of(kernel).address(x).i32(rows).run(grid, block)}, the arguments in
 * the kernel's order and of its parameters' sizes. One object serves all launches of one thread at
 * a time on one stream, such as a backend's owner's on the compute stream, and makes no garbage.
 */
final class Launch implements AutoCloseable {

  private static final int MAX_ARGUMENT_BYTES = 4096;

  private final CudaContext context;
  private final CUstream_st stream;
  private final BytePointer memory = new BytePointer(MAX_ARGUMENT_BYTES);
  private final ByteBuffer arguments = memory.asByteBuffer().order(ByteOrder.nativeOrder());
  private final SizeTPointer size = new SizeTPointer(1);
  private final PointerPointer<Pointer> extra = new PointerPointer<>(5);
  private Kernel kernel;

  /**
   * @param stream one of the context's
   */
  Launch(CudaContext context, CUstream_st stream) {
    this.context = context;
    this.stream = stream;
    extra.put(0, new DevicePointer(cudart.CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT));
    extra.put(1, memory);
    extra.put(2, new DevicePointer(cudart.CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT));
    extra.put(3, size);
    extra.put(4, new DevicePointer(cudart.CU_LAUNCH_PARAM_END_AS_INT));
  }

  /** Where kernels run. */
  CUstream_st stream() {
    return stream;
  }

  /** Begins a launch. */
  Launch of(Kernel started) {
    kernel = started;
    arguments.clear();
    return this;
  }

  /** A pointer. */
  Launch address(long value) {
    return i64(value);
  }

  /** A 64-bit integer. */
  Launch i64(long value) {
    align(Long.BYTES);
    arguments.putLong(value);
    return this;
  }

  /** A 32-bit integer. */
  Launch i32(int value) {
    align(Integer.BYTES);
    arguments.putInt(value);
    return this;
  }

  /** A float. */
  Launch f32(float value) {
    align(Float.BYTES);
    arguments.putFloat(value);
    return this;
  }

  /**
   * An array of 32-bit integers.
   *
   * @param length its length as the kernel has it; elements from count on hold anything
   */
  Launch ints(int[] values, int count, int length) {
    align(Integer.BYTES);
    int begin = arguments.position();
    arguments.asIntBuffer().put(values, 0, count);
    arguments.position(begin + length * Integer.BYTES);
    return this;
  }

  private void align(int bytes) {
    arguments.position(arguments.position() + bytes - 1 & -bytes);
  }

  /** Starts blocks in one dimension. */
  void run(int blocks, int threads) {
    run(blocks, 1, 1, threads, 0);
  }

  /**
   * Starts the kernel; a grid of no blocks is nothing to do.
   *
   * @param sharedBytes dynamic shared memory of a block
   */
  void run(int blocksX, int blocksY, int blocksZ, int threads, int sharedBytes) {
    if (blocksX == 0 || blocksY == 0 || blocksZ == 0) {
      return;
    }
    size.put(arguments.position());
    int code =
        cuLaunchKernel(
            kernel.function(),
            blocksX,
            blocksY,
            blocksZ,
            threads,
            1,
            1,
            sharedBytes,
            stream,
            (PointerPointer<?>) null,
            extra);
    if (code != 0) {
      context.check(code, "starting the kernel " + kernel.name());
    }
  }

  @Override
  public void close() {
    extra.close();
    size.close();
    memory.close();
  }
}
