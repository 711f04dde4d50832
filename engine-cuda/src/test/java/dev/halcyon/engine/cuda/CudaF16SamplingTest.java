package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.SamplingContractTest;
import org.junit.jupiter.api.Tag;

/** Sampling from rows of F16, by contract. */
@Tag("gpu")
class CudaF16SamplingTest extends SamplingContractTest {

  @Override
  protected Backend open(BackendOptions options) {
    return TestBackends.open(options, DType.F16);
  }
}
