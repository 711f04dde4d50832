package dev.halcyon.engine.executor;

import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.SamplingParams;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * A request whose logits processor holds each step while it samples, so that a test knows what the
 * steps before have done and what the next one will take in.
 */
final class StepGate implements AutoCloseable {

  private static final int[] PROMPT = {5};

  private final Semaphore reached = new Semaphore(0);
  private final Semaphore passes = new Semaphore(0);
  private final GenerationHandle handle;

  /** Returns once the engine's step is held. */
  StepGate(OpenModel model) {
    SamplingParams params =
        SamplingParams.builder()
            .temperature(0f)
            .maxTokens(200)
            .ignoreEos(true)
            .logitsProcessor(
                (prompt, generated, logits) -> {
                  reached.release();
                  acquire(passes);
                  return logits;
                })
            .build();
    handle = model.executor().submit(GenerationRequest.of(PROMPT, params), PROMPT);
    acquire(reached);
  }

  /** Ends the step that is held, and returns once the next one is. */
  void next() {
    passes.release();
    acquire(reached);
  }

  /** Lets all steps pass from now on, and takes the request out; it may have failed. */
  @Override
  public void close() {
    handle.cancel();
    passes.release(1000);
    handle.result().handle((result, error) -> result).join();
  }

  private static void acquire(Semaphore semaphore) {
    try {
      if (!semaphore.tryAcquire(20, TimeUnit.SECONDS)) {
        throw new IllegalStateException("the step did not come to the gate, or was not let go");
      }
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
