package dev.halcyon.engine.benchmarks;

import static org.bytedeco.cuda.global.cudart.cudaDeviceSynchronize;
import static org.bytedeco.cuda.global.cudart.cudaFree;
import static org.bytedeco.cuda.global.cudart.cudaFreeHost;
import static org.bytedeco.cuda.global.cudart.cudaHostAlloc;
import static org.bytedeco.cuda.global.cudart.cudaMalloc;
import static org.bytedeco.cuda.global.cudart.cudaMemcpy;
import static org.bytedeco.cuda.global.cudart.cudaSetDevice;

import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.Pointer;

/** How fast a GPU copies from pinned host memory: what bounds the loading of weights. */
final class UploadLimit {

  private static final long BYTES = 256L << 20;
  private static final int PASSES = 8;

  private UploadLimit() {}

  /** Bytes a second, the best of several copies. */
  static double bytesPerSecond(int device) {
    check(cudaSetDevice(device));
    Pointer from = new Pointer();
    check(cudaHostAlloc(from, BYTES, cudart.cudaHostAllocDefault));
    Pointer to = new Pointer();
    try {
      check(cudaMalloc(to, BYTES));
      double best = 0;
      for (int pass = 0; pass <= PASSES; pass++) {
        long start = System.nanoTime();
        check(cudaMemcpy(to, from, BYTES, cudart.cudaMemcpyHostToDevice));
        check(cudaDeviceSynchronize());
        if (pass > 0) {
          best = Math.max(best, BYTES / ((System.nanoTime() - start) / 1e9));
        }
      }
      return best;
    } finally {
      cudaFree(to);
      cudaFreeHost(from);
    }
  }

  private static void check(int code) {
    if (code != 0) {
      throw new IllegalStateException("CUDA error " + code);
    }
  }
}
