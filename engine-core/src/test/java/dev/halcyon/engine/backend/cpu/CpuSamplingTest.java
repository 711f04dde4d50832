package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.SamplingContractTest;

/** The CPU's sampling, by contract. */
class CpuSamplingTest extends SamplingContractTest {

  @Override
  protected Backend open(BackendOptions options) {
    return new CpuBackend(options, KernelChoice.best(), Blas.load().orElse(null));
  }
}
