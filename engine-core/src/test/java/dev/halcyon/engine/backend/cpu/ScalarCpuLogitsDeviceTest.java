package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.LogitsDeviceContractTest;

/** The contract, in plain Java, without BLAS. */
class ScalarCpuLogitsDeviceTest extends LogitsDeviceContractTest {

  @Override
  protected Backend open(BackendOptions options) {
    return new CpuBackend(options, KernelChoice.choose(false), null);
  }
}
