package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendContractTest;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.DType;
import org.junit.jupiter.api.Tag;

/** The contract with activations of F16. */
@Tag("gpu")
class CudaF16BackendTest extends BackendContractTest {

  @Override
  protected Backend open(BackendOptions options) {
    return TestBackends.open(options, DType.F16);
  }

  /** Two roundings to 11 bits. */
  @Override
  protected double tolerance() {
    return 0x1p-10;
  }
}
