package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.KvTransferContractTest;

/** The contract, on the CPU. */
class CpuKvTransferTest extends KvTransferContractTest {

  @Override
  protected Backend open(BackendOptions options) {
    return new CpuBackend(options, KernelChoice.best(), null);
  }
}
