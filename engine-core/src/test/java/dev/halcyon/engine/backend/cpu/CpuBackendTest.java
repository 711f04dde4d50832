package dev.halcyon.engine.backend.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendContractTest;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.BackendProvider;
import java.util.ServiceLoader;
import org.junit.jupiter.api.Test;

/** The contract, as the service loader opens the backend: vectorised where the module is there. */
class CpuBackendTest extends BackendContractTest {

  @Override
  protected Backend open(BackendOptions options) {
    return ServiceLoader.load(BackendProvider.class).stream()
        .map(ServiceLoader.Provider::get)
        .filter(provider -> provider.name().equals("cpu"))
        .findFirst()
        .orElseThrow()
        .open(options);
  }

  @Override
  protected double tolerance() {
    return 5e-7;
  }

  @Test
  void testsRunTheVectorisedKernels() {
    assertThat(KernelChoice.best()).isInstanceOf(VectorKernels.class);
    assertThat(KernelChoice.choose(false)).isInstanceOf(ScalarKernels.class);
  }
}
