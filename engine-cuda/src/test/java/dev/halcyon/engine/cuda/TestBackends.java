package dev.halcyon.engine.cuda;

import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.DTypeChoice;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.DType;

/** Backends as tests open them. */
final class TestBackends {

  /** What engines of tests compute on; products of other numbers of rows add up in other orders. */
  static final TestBackend CUDA = new TestBackend(BackendChoice.CUDA, 1e-5);

  private TestBackends() {}

  /** The options of a contract test, with a type of activations. */
  static CudaBackend open(BackendOptions options, DType type) {
    return CudaBackend.open(
        new BackendOptions(
            options.threads(),
            options.memoryBytes(),
            options.hostMemoryBytes(),
            options.deviceIndex(),
            DTypeChoice.AUTO,
            type));
  }

  static CudaBackend open(long memoryBytes, DType type) {
    return open(new BackendOptions(4, memoryBytes, 1 << 20, 0), type);
  }
}
