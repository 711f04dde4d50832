package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendContractTest;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.DType;
import org.junit.jupiter.api.Tag;

/** The contract with activations of BF16. */
@Tag("gpu")
class CudaBf16BackendTest extends BackendContractTest {

  @Override
  protected Backend open(BackendOptions options) {
    return TestBackends.open(options, DType.BF16);
  }

  /** Two roundings to 8 bits. */
  @Override
  protected double tolerance() {
    return 0x1p-7;
  }
}
