package dev.halcyon.engine.cuda;

import dev.halcyon.engine.ContextLogitsReuseTest;
import dev.halcyon.engine.ContextLogitsStreamingTest;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.executor.ContextLogitsFaultTest;
import dev.halcyon.engine.executor.ContextLogitsLifecycleTest;
import dev.halcyon.engine.executor.ContextLogitsPauseTest;
import dev.halcyon.engine.executor.ContextLogitsSoakTest;
import dev.halcyon.engine.executor.ContextPathSwitchTest;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Tag;

/** Context logits and prompt logprobs on a GPU, through all that holds of them on the CPU. */
@Tag("gpu")
class CudaContextLogitsTest {

  @Nested
  class Reuse extends ContextLogitsReuseTest {

    @Override
    protected TestBackend backend() {
      return TestBackends.CUDA;
    }
  }

  @Nested
  class Streaming extends ContextLogitsStreamingTest {

    @Override
    protected TestBackend backend() {
      return TestBackends.CUDA;
    }
  }

  @Nested
  class Faults extends ContextLogitsFaultTest {

    @Override
    protected TestBackend backend() {
      return TestBackends.CUDA;
    }
  }

  @Nested
  class Lifecycle extends ContextLogitsLifecycleTest {

    @Override
    protected TestBackend backend() {
      return TestBackends.CUDA;
    }
  }

  @Nested
  class Pauses extends ContextLogitsPauseTest {

    @Override
    protected TestBackend backend() {
      return TestBackends.CUDA;
    }
  }

  @Nested
  class PathSwitch extends ContextPathSwitchTest {

    @Override
    protected TestBackend backend() {
      return TestBackends.CUDA;
    }
  }

  @Nested
  class Soak extends ContextLogitsSoakTest {

    @Override
    protected TestBackend backend() {
      return TestBackends.CUDA;
    }
  }
}
