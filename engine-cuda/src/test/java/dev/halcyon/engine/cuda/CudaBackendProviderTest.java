package dev.halcyon.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assumptions.assumeThat;

import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.BackendProvider;
import dev.halcyon.engine.backend.BackendSelector;
import java.util.List;
import java.util.ServiceLoader;
import org.junit.jupiter.api.Test;

/** What holds on a machine without a GPU, which is where most tests run. */
class CudaBackendProviderTest {

  private static final BackendOptions OPTIONS = new BackendOptions(1, 1 << 20, 1 << 20, 0);

  private final CudaBackendProvider provider = new CudaBackendProvider();

  private static List<BackendProvider> withCuda(CudaBackendProvider cuda) {
    BackendProvider cpu =
        ServiceLoader.load(BackendProvider.class).stream()
            .map(ServiceLoader.Provider::get)
            .filter(other -> other.name().equals("cpu"))
            .findFirst()
            .orElseThrow();
    return List.of(cpu, cuda);
  }

  @Test
  void saysWhyThereIsNoGpuAndLeavesTheCpu() {
    assumeThat(provider.unavailable()).isPresent();
    assertThat(provider.unavailable().get()).containsAnyOf("driver", "library", "GPU");
    BackendSelector selector = new BackendSelector(withCuda(provider));
    try (Backend backend = selector.openBest(OPTIONS)) {
      assertThat(backend.name()).isEqualTo("cpu");
    }
    assertThatThrownBy(() -> selector.open("cuda", OPTIONS))
        .isInstanceOf(EngineException.class)
        .hasMessageContaining(provider.unavailable().get());
  }

  @Test
  void comesBeforeTheCpu() {
    assertThat(provider.name()).isEqualTo("cuda");
    assertThat(withCuda(provider).get(0).priority()).isLessThan(provider.priority());
  }
}
