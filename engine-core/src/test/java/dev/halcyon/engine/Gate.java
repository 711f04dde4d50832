package dev.halcyon.engine;

import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Holds an engine in the middle of a step, while a test submits what is to run together: the
 * processor of a request that came before.
 */
public final class Gate implements LogitsProcessor {

  private final CountDownLatch reached = new CountDownLatch(1);
  private final CountDownLatch opened = new CountDownLatch(1);

  @Override
  public float[] process(List<Integer> promptIds, List<Integer> generatedIds, float[] logits) {
    reached.countDown();
    await(opened);
    return logits;
  }

  /** Waits until the engine stands at the gate. */
  public void awaitEngine() {
    await(reached);
  }

  /** Lets the engine go on. */
  public void open() {
    opened.countDown();
  }

  private static void await(CountDownLatch latch) {
    try {
      if (!latch.await(30, TimeUnit.SECONDS)) {
        throw new IllegalStateException("nobody came to the gate");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(e);
    }
  }
}
