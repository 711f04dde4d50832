package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.HostMemoryContractTest;
import org.junit.jupiter.api.Tag;

/** Pinned host memory, by contract. */
@Tag("gpu")
class CudaHostMemoryTest extends HostMemoryContractTest {

  @Override
  protected Backend open(BackendOptions options) {
    return TestBackends.open(options, DType.BF16);
  }
}
