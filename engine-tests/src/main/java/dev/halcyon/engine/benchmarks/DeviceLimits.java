package dev.halcyon.engine.benchmarks;

import dev.halcyon.engine.DTypeChoice;
import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.BackendSelector;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.Matrix;
import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.logits.HostBuffer;
import java.util.List;

/**
 * What a GPU does at best in this run, each the best of several passes.
 *
 * @param operations floating-point operations a second of a large BF16 product
 * @param memoryBytes bytes a second that a copy within its memory reads and writes together
 * @param downloadBytes bytes a second of one copy to pinned host memory
 */
record DeviceLimits(double operations, double memoryBytes, double downloadBytes) {

  private static final int SIZE = 8192;
  private static final long COPY_BYTES = 4L << 30;
  private static final long DOWNLOAD_BYTES = 1L << 30;
  private static final int PASSES = 8;

  static DeviceLimits measure(String backendName, int device) {
    BackendOptions options =
        new BackendOptions(
            1, 2 * COPY_BYTES + (1L << 30), DOWNLOAD_BYTES, device, DTypeChoice.BF16, DType.BF16);
    try (Backend backend = BackendSelector.onClassPath().open(backendName, options)) {
      return new DeviceLimits(product(backend), copy(backend), download(backend));
    }
  }

  private static double product(Backend backend) {
    try (Matrix weights = backend.load(List.of(RandomHead.weights(SIZE, SIZE, 1)));
        DeviceBuffer in = RandomRows.of(backend, SIZE, SIZE, 2);
        DeviceBuffer out =
            backend.memory().allocate(backend.activationBytes(SIZE, SIZE), "product")) {
      double seconds = best(backend, () -> backend.linear(in, SIZE, weights, null, out));
      return 2.0 * SIZE * SIZE * SIZE / seconds;
    }
  }

  private static double copy(Backend backend) {
    try (DeviceBuffer from = backend.memory().allocate(COPY_BYTES, "copy");
        DeviceBuffer to = backend.memory().allocate(COPY_BYTES, "copy")) {
      return 2.0 * COPY_BYTES / best(backend, () -> backend.copy(from, to, COPY_BYTES));
    }
  }

  private static double download(Backend backend) {
    try (DeviceBuffer from = backend.memory().allocate(DOWNLOAD_BYTES, "download");
        HostBuffer to = backend.hostMemory().allocate(DOWNLOAD_BYTES, "download")) {
      double seconds =
          best(backend, () -> backend.download(from, DOWNLOAD_BYTES / Float.BYTES, to, 0));
      return DOWNLOAD_BYTES / seconds;
    }
  }

  private static double best(Backend backend, Runnable operation) {
    double best = Double.MAX_VALUE;
    for (int pass = 0; pass <= PASSES; pass++) {
      backend.synchronize();
      long start = System.nanoTime();
      operation.run();
      backend.synchronize();
      if (pass > 0) {
        best = Math.min(best, (System.nanoTime() - start) / 1e9);
      }
    }
    return best;
  }
}
