package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.KvTransferContractTest;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Tag;

/** The contract of KV caches that are handed over, with each type of activations. */
@Tag("gpu")
class CudaKvTransferTest {

  @Nested
  class F32 extends KvTransferContractTest {

    @Override
    protected Backend open(BackendOptions options) {
      return TestBackends.open(options, DType.F32);
    }
  }

  @Nested
  class F16 extends KvTransferContractTest {

    @Override
    protected Backend open(BackendOptions options) {
      return TestBackends.open(options, DType.F16);
    }
  }

  @Nested
  class Bf16 extends KvTransferContractTest {

    @Override
    protected Backend open(BackendOptions options) {
      return TestBackends.open(options, DType.BF16);
    }
  }
}
