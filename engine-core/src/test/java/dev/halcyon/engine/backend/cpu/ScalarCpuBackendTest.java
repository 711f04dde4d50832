package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendContractTest;
import dev.halcyon.engine.backend.BackendOptions;

/** The contract in plain Java, without the vector module and without BLAS. */
class ScalarCpuBackendTest extends BackendContractTest {

  @Override
  protected Backend open(BackendOptions options) {
    return new CpuBackend(options, KernelChoice.choose(false), null);
  }

  @Override
  protected double tolerance() {
    return 5e-7;
  }
}
