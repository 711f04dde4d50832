package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.BackendProvider;
import dev.halcyon.engine.backend.DType;
import java.nio.ByteOrder;
import java.util.Optional;

/** The backend that every machine has. */
public final class CpuBackendProvider implements BackendProvider {

  static final String NAME = "cpu";

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public int priority() {
    return 0;
  }

  @Override
  public Optional<String> unavailable() {
    return ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN
        ? Optional.empty()
        : Optional.of("checkpoints are little-endian, and this machine is not");
  }

  @Override
  public Backend open(BackendOptions options) {
    if (!options.allows(DType.F32)) {
      throw new IllegalArgumentException(
          "dtype "
              + options.dtype()
              + " was asked for, and the CPU backend computes in F32: leave dtype out, or choose a"
              + " GPU");
    }
    return new CpuBackend(options, KernelChoice.best(), Blas.load().orElse(null));
  }
}
