package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.BackendProvider;
import java.util.Optional;

/** Finds and opens NVIDIA GPUs. Until it is asked to, nothing of CUDA is loaded. */
public final class CudaBackendProvider implements BackendProvider {

  static final String NAME = "cuda";

  private static final int PRIORITY = 100;

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public int priority() {
    return PRIORITY;
  }

  @Override
  public Optional<String> unavailable() {
    return CudaProbe.unavailable();
  }

  @Override
  public Backend open(BackendOptions options) {
    return CudaBackend.open(options);
  }
}
