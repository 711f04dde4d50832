package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.LogitsReductionContractTest;

/** The contract, with the kernels that this JVM has. */
class CpuLogitsReductionTest extends LogitsReductionContractTest {

  @Override
  protected Backend open(BackendOptions options) {
    return new CpuBackend(options, KernelChoice.best(), Blas.load().orElse(null));
  }
}
