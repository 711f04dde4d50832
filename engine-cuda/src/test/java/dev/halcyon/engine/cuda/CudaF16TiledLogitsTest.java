package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.TiledLogitsContractTest;
import org.junit.jupiter.api.Tag;

/** Tiles of the vocabulary with F16 activations, by contract. */
@Tag("gpu")
class CudaF16TiledLogitsTest extends TiledLogitsContractTest {

  @Override
  protected Backend open(BackendOptions options) {
    return TestBackends.open(options, DType.F16);
  }
}
