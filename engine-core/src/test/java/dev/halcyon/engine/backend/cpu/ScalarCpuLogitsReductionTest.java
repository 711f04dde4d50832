package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.LogitsReductionContractTest;

/** The contract, in plain Java, without BLAS. */
class ScalarCpuLogitsReductionTest extends LogitsReductionContractTest {

  @Override
  protected Backend open(BackendOptions options) {
    return new CpuBackend(options, KernelChoice.choose(false), null);
  }
}
