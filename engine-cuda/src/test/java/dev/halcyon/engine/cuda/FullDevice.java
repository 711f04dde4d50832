package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cudaFree;
import static org.bytedeco.cuda.global.cudart.cudaGetLastError;
import static org.bytedeco.cuda.global.cudart.cudaMalloc;
import static org.bytedeco.cuda.global.cudart.cudaMemGetInfo;

import java.util.ArrayList;
import java.util.List;
import org.bytedeco.javacpp.SizeTPointer;

/** Takes the device's memory, all but a little, as another process would. */
final class FullDevice implements AutoCloseable {

  private static final long LEAST = 2L << 20;

  private final List<DevicePointer> taken = new ArrayList<>();

  FullDevice() {
    CudaProbe.device(0).makeCurrent();
    for (long size = free(); size >= LEAST; size /= 2) {
      while (take(size)) {
        size = Math.min(size, free());
      }
    }
  }

  private boolean take(long bytes) {
    DevicePointer address = new DevicePointer();
    if (bytes < LEAST || cudaMalloc(address, bytes) != 0) {
      cudaGetLastError();
      return false;
    }
    taken.add(address);
    return true;
  }

  /** The bytes that are free. */
  static long free() {
    try (SizeTPointer free = new SizeTPointer(1);
        SizeTPointer total = new SizeTPointer(1)) {
      CudaErrors.check(cudaMemGetInfo(free, total), "reading how much memory is free");
      return free.get();
    }
  }

  @Override
  public void close() {
    CudaProbe.device(0).makeCurrent();
    taken.forEach(address -> cudaFree(address));
    taken.clear();
  }
}
