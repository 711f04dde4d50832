package dev.halcyon.engine.executor;

import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.EngineMetrics;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.backend.BackendSelector;
import dev.halcyon.engine.executor.StepPlan.Chunk;
import dev.halcyon.engine.logits.BatchDescription;
import java.util.List;
import java.util.function.Function;

/** An open checkpoint of which a test sees every step, and says how its rows are projected. */
final class DescribedModel implements AutoCloseable {

  private final OpenModel model;

  /**
   * @param describe called on the executor's thread, before a step's context rows are projected
   */
  DescribedModel(EngineBuilder builder, Function<List<Chunk>, BatchDescription> describe) {
    model = OpenModel.open(TestBackend.options(builder), BackendSelector.onClassPath(), describe);
  }

  /** Submits a request whose prompt is ids. */
  GenerationHandle submit(GenerationRequest request) {
    return model.executor().submit(request, request.promptIds());
  }

  EngineMetrics metrics() {
    return model.executor().metrics();
  }

  @Override
  public void close() {
    model.executor().close();
  }
}
