package dev.halcyon.engine.cuda;

import dev.halcyon.engine.CapacityPolicy;
import dev.halcyon.engine.EngineLifecycleTest;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.executor.BackendFaultTest;
import dev.halcyon.engine.executor.LayersLeaveTest;
import dev.halcyon.engine.executor.RandomizedExecutorTest;
import java.util.stream.Stream;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.provider.Arguments;

/** The engine's life on a GPU: every kind of request under load, faults, cancelling, closing. */
@Tag("gpu")
class CudaEngineTest {

  @Nested
  class RandomizedExecutor extends RandomizedExecutorTest {

    @Override
    protected TestBackend backend() {
      return TestBackends.CUDA;
    }

    /** Steps of a few tokens and of many, and both policies. */
    @Override
    protected Stream<Arguments> settings() {
      return Stream.of(
          Arguments.of(CapacityPolicy.GUARANTEED_NO_EVICT, 9),
          Arguments.of(CapacityPolicy.MAX_UTILIZATION, 9),
          Arguments.of(CapacityPolicy.MAX_UTILIZATION, 4096));
    }
  }

  @Nested
  class Lifecycle extends EngineLifecycleTest {

    @Override
    protected TestBackend backend() {
      return TestBackends.CUDA;
    }
  }

  /** While the engine's thread has queued the whole step, and waits for nothing else. */
  @Nested
  class LayersLeave extends LayersLeaveTest {

    @Override
    protected TestBackend backend() {
      return TestBackends.CUDA;
    }
  }

  @Nested
  class Faults extends BackendFaultTest {

    @Override
    protected TestBackend backend() {
      return TestBackends.CUDA;
    }
  }
}
