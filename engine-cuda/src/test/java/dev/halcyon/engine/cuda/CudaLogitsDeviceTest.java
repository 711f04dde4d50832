package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.LogitsDeviceContractTest;
import org.junit.jupiter.api.Tag;

/** Parts of buffers, copies and conversions, by contract. */
@Tag("gpu")
class CudaLogitsDeviceTest extends LogitsDeviceContractTest {

  @Override
  protected Backend open(BackendOptions options) {
    return TestBackends.open(options, DType.BF16);
  }
}
