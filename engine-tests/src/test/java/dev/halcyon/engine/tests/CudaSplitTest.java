package dev.halcyon.engine.tests;

import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.disagg.Ends;
import dev.halcyon.engine.disagg.SplitContract;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Tag;

/** Split requests on a GPU, over each way between engines. */
@Tag("gpu")
class CudaSplitTest {

  /** Products of other numbers of rows add up in other orders. */
  private static final TestBackend CUDA = new TestBackend(BackendChoice.CUDA, 1e-5);

  @Nested
  class InProcess extends SplitContract {

    @Override
    protected Ends ends() {
      return Ends.inProcess();
    }

    @Override
    protected TestBackend backend() {
      return CUDA;
    }
  }

  @Nested
  class Tcp extends SplitContract {

    @Override
    protected Ends ends() {
      return Ends.tcp();
    }

    @Override
    protected TestBackend backend() {
      return CUDA;
    }
  }
}
