package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendContractTest;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.DType;
import org.junit.jupiter.api.Tag;

/** The contract with activations of F32. */
@Tag("gpu")
class CudaF32BackendTest extends BackendContractTest {

  @Override
  protected Backend open(BackendOptions options) {
    return TestBackends.open(options, DType.F32);
  }

  /** float32 with a few units in the last place of exponentials and roots. */
  @Override
  protected double tolerance() {
    return 2e-6;
  }
}
