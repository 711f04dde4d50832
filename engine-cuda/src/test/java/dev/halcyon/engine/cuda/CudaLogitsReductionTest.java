package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.LogitsReductionContractTest;
import org.junit.jupiter.api.Tag;

/** The reduction to prompt logprobs, by contract. */
@Tag("gpu")
class CudaLogitsReductionTest extends LogitsReductionContractTest {

  @Override
  protected Backend open(BackendOptions options) {
    return TestBackends.open(
        options, options.modelType() == DType.F32 ? DType.BF16 : options.modelType());
  }
}
