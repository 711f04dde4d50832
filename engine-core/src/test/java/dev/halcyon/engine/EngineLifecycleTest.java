package dev.halcyon.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Queueing, priorities, timeouts, cancelling and closing. */
@Timeout(60)
public class EngineLifecycleTest {

  /** What the engines compute on. */
  protected TestBackend backend() {
    return TestBackend.CPU;
  }

  private static final SamplingParams LONG =
      SamplingParams.builder().temperature(0f).maxTokens(200).ignoreEos(true).build();

  @TempDir static Path directory;
  private static Path checkpoint;

  @BeforeAll
  static void writeCheckpoint() {
    checkpoint = TinyCheckpoint.write(directory.resolve("tiny"));
  }

  private EngineBuilder engine() {
    return backend().engine().model(checkpoint).threads(1).integrityChecks(true);
  }

  /** A processor that holds the executor's step until the latch opens. */
  private static SamplingParams heldBy(CountDownLatch reached, CountDownLatch latch) {
    return LONG.toBuilder()
        .logitsProcessor(
            (prompt, generated, logits) -> {
              reached.countDown();
              try {
                latch.await();
              } catch (InterruptedException e) {
                throw new IllegalStateException(e);
              }
              return logits;
            })
        .build();
  }

  @Test
  void submitFailsWhenAsManyWaitAsMay() throws Exception {
    CountDownLatch reached = new CountDownLatch(1);
    CountDownLatch go = new CountDownLatch(1);
    try (Engine engine = engine().maxBatchSize(1).maxQueuedRequests(2).build()) {
      GenerationHandle running = engine.submit(GenerationRequest.of("a", heldBy(reached, go)));
      reached.await();
      GenerationHandle second = engine.submit(GenerationRequest.of("b", LONG));
      GenerationHandle third = engine.submit(GenerationRequest.of("c", LONG));
      assertThatThrownBy(() -> engine.submit(GenerationRequest.of("d", LONG)))
          .isInstanceOf(QueueFullException.class)
          .hasMessageContaining("maxQueuedRequests");
      go.countDown();
      assertThat(running.await().outputs().get(0).tokenIds()).hasSize(200);
      second.await();
      third.await();
      assertThat(engine.generate("d", LONG).outputs().get(0).tokenIds()).hasSize(200);
    }
  }

  @Test
  void submitWaitsForAPlaceIfSoConfigured() throws Exception {
    CountDownLatch reached = new CountDownLatch(1);
    CountDownLatch go = new CountDownLatch(1);
    try (Engine engine =
        engine()
            .maxBatchSize(1)
            .maxQueuedRequests(1)
            .queueFullPolicy(QueueFullPolicy.WAIT)
            .build()) {
      engine.submit(GenerationRequest.of("a", heldBy(reached, go)));
      reached.await();
      engine.submit(GenerationRequest.of("b", LONG));
      AtomicReference<GenerationHandle> third = new AtomicReference<>();
      Thread caller = new Thread(() -> third.set(engine.submit(GenerationRequest.of("c", LONG))));
      caller.start();
      caller.join(200);
      assertThat(caller.isAlive()).as("the caller waits").isTrue();
      go.countDown();
      caller.join();
      assertThat(third.get().await().outputs()).hasSize(1);
    }
  }

  @Test
  void higherPriorityGoesFirstAndEqualOnesInOrder() throws Exception {
    CountDownLatch reached = new CountDownLatch(1);
    CountDownLatch go = new CountDownLatch(1);
    List<String> order = java.util.Collections.synchronizedList(new ArrayList<>());
    try (Engine engine = engine().maxBatchSize(1).build()) {
      engine.submit(GenerationRequest.of("a", heldBy(reached, go)));
      reached.await();
      List<GenerationHandle> handles = new ArrayList<>();
      for (String name : List.of("low", "first", "second", "high")) {
        int priority = name.equals("low") ? -1 : name.equals("high") ? 7 : 0;
        SamplingParams noting =
            LONG.toBuilder()
                .maxTokens(1)
                .logitsProcessor(
                    (prompt, generated, logits) -> {
                      order.add(name);
                      return logits;
                    })
                .build();
        handles.add(
            engine.submit(
                GenerationRequest.builder("b").params(noting).priority(priority).build()));
      }
      go.countDown();
      handles.forEach(GenerationHandle::await);
    }
    assertThat(order).containsExactly("high", "first", "second", "low");
  }

  @Test
  void timeoutEndsAWaitingAndARunningRequest() throws Exception {
    CountDownLatch reached = new CountDownLatch(1);
    CountDownLatch go = new CountDownLatch(1);
    try (Engine engine = engine().maxBatchSize(1).build()) {
      GenerationHandle running =
          engine.submit(
              GenerationRequest.builder("a")
                  .params(heldBy(reached, go))
                  .timeout(Duration.ofMillis(150))
                  .build());
      reached.await();
      GenerationHandle waiting =
          engine.submit(
              GenerationRequest.builder("b").params(LONG).timeout(Duration.ofMillis(100)).build());
      Thread.sleep(300);
      go.countDown();
      GenerationOutput first = running.await().outputs().get(0);
      assertThat(first.finishReason()).isEqualTo(FinishReason.TIMEOUT);
      assertThat(first.tokenIds()).hasSize(1);
      GenerationOutput second = waiting.await().outputs().get(0);
      assertThat(second.finishReason()).isEqualTo(FinishReason.TIMEOUT);
      assertThat(second.tokenIds()).isEmpty();
      assertThat(engine.metrics().freeBlocks()).isEqualTo(engine.metrics().totalBlocks());
    }
  }

  @Test
  void anIdleEngineWakesForTimeouts() {
    // Nothing else happens in the engine: its own clock has to end a request that can't start.
    try (Engine engine = engine().maxBatchSize(1).build()) {
      SamplingParams slow =
          LONG.toBuilder()
              .logitsProcessor(
                  (prompt, generated, logits) -> {
                    sleep(20);
                    return logits;
                  })
              .build();
      GenerationHandle handle =
          engine.submit(
              GenerationRequest.builder("a").params(slow).timeout(Duration.ofMillis(100)).build());
      GenerationResult result = handle.await();
      assertThat(result.outputs().get(0).finishReason()).isEqualTo(FinishReason.TIMEOUT);
      assertThat(result.outputs().get(0).tokenIds().size()).isBetween(1, 50);
    }
  }

  @Test
  void cancelGivesWhatWasGeneratedAndFreesTheBlocks() {
    try (Engine engine = engine().build()) {
      GenerationHandle handle =
          engine.submit(
              GenerationRequest.of(
                  "a",
                  LONG.toBuilder()
                      .n(2)
                      .logitsProcessor(
                          (prompt, generated, logits) -> {
                            sleep(2);
                            return logits;
                          })
                      .build()));
      var deltas = handle.stream().iterator();
      deltas.next();
      handle.cancel();
      handle.cancel();
      GenerationResult result = handle.await();
      assertThat(result.outputs()).hasSize(2);
      for (GenerationOutput output : result.outputs()) {
        assertThat(output.finishReason()).isEqualTo(FinishReason.CANCELLED);
        assertThat(output.tokenIds().size()).isBetween(1, 150);
      }
      assertThat(engine.metrics().freeBlocks()).isEqualTo(engine.metrics().totalBlocks());
      handle.cancel();
      assertThat(engine.generate("a", LONG).outputs().get(0).tokenIds()).hasSize(200);
    }
  }

  @Test
  void aProcessorThatThrowsFailsItsRequestAlone() {
    try (Engine engine = engine().build()) {
      GenerationHandle good = engine.submit(GenerationRequest.of("a", LONG));
      GenerationHandle thrower =
          engine.submit(
              GenerationRequest.of(
                  "a",
                  LONG.toBuilder()
                      .logitsProcessor(
                          (prompt, generated, logits) -> {
                            throw new IllegalStateException("my own bug");
                          })
                      .build()));
      GenerationHandle shrinker =
          engine.submit(
              GenerationRequest.of(
                  "a",
                  LONG.toBuilder()
                      .logitsProcessor((prompt, generated, logits) -> new float[3])
                      .build()));
      assertThatThrownBy(thrower::await)
          .isInstanceOf(LogitsProcessorException.class)
          .hasRootCauseMessage("my own bug");
      assertThatThrownBy(shrinker::await)
          .isInstanceOf(LogitsProcessorException.class)
          .hasMessageContaining("3")
          .hasMessageContaining("448");
      assertThatThrownBy(() -> thrower.stream().toList())
          .isInstanceOf(LogitsProcessorException.class);
      assertThat(good.await().outputs().get(0).tokenIds())
          .isEqualTo(engine.generate("a", LONG).outputs().get(0).tokenIds());
    }
  }

  @Test
  void closeUnderLoadEndsEveryRequestWithATypedError() throws Exception {
    Engine engine = engine().maxBatchSize(4).build();
    List<GenerationHandle> handles = new ArrayList<>();
    for (int i = 0; i < 40; i++) {
      handles.add(engine.submit(GenerationRequest.of("a", LONG)));
    }
    Thread other = new Thread(engine::close);
    other.start();
    engine.close();
    other.join();
    engine.close();
    int failed = 0;
    for (GenerationHandle handle : handles) {
      try {
        handle.result().orTimeout(10, TimeUnit.SECONDS).join();
      } catch (CompletionException e) {
        assertThat(e.getCause()).isInstanceOf(EngineClosedException.class);
        failed++;
      }
    }
    assertThat(failed).isPositive();
    assertThatThrownBy(() -> engine.submit(GenerationRequest.of("a", LONG)))
        .isInstanceOf(EngineClosedException.class);
    assertThatThrownBy(() -> engine.tokenize("a")).isInstanceOf(EngineClosedException.class);
    assertThat(engine.metrics().deviceMemoryUsed()).isZero();
  }

  @Test
  void callersThatRaceWithCloseHearThatTheEngineIsClosed() throws Exception {
    for (int round = 0; round < 20; round++) {
      Engine engine = engine().build();
      List<Throwable> errors = java.util.Collections.synchronizedList(new ArrayList<>());
      List<Thread> callers = new ArrayList<>();
      for (int i = 0; i < 3; i++) {
        Thread caller =
            new Thread(
                () -> {
                  try {
                    for (int n = 0; n < 100_000; n++) {
                      engine.submit(GenerationRequest.of("a text to tokenise " + n, LONG));
                    }
                  } catch (QueueFullException e) {
                    engine.close();
                  } catch (Throwable e) {
                    errors.add(e);
                  }
                });
        callers.add(caller);
        caller.start();
      }
      Thread.sleep(round);
      engine.close();
      for (Thread caller : callers) {
        caller.join();
      }
      assertThat(errors).allMatch(error -> error instanceof EngineClosedException);
    }
  }

  @Test
  void closeDrainsIfSoConfigured() {
    Engine engine = engine().maxBatchSize(4).closeMode(CloseMode.DRAIN).build();
    List<GenerationHandle> handles = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      handles.add(engine.submit(GenerationRequest.of("a", LONG)));
    }
    engine.close();
    for (GenerationHandle handle : handles) {
      assertThat(handle.await().outputs().get(0).tokenIds()).hasSize(200);
    }
  }

  @Test
  void closeFromCallbacksDoesNotHang() {
    Engine engine = engine().threads(2).build();
    GenerationHandle handle =
        engine.submit(
            GenerationRequest.of(
                "a",
                LONG.toBuilder()
                    .logitsProcessor(
                        (prompt, generated, logits) -> {
                          engine.close();
                          return logits;
                        })
                    .build()));
    assertThatThrownBy(handle::await).isInstanceOf(EngineClosedException.class);
    engine.close();
  }

  @Test
  void closeReleasesCallersThatWaitForAPlace() throws Exception {
    CountDownLatch reached = new CountDownLatch(1);
    CountDownLatch go = new CountDownLatch(1);
    Engine engine =
        engine().maxBatchSize(1).maxQueuedRequests(1).queueFullPolicy(QueueFullPolicy.WAIT).build();
    engine.submit(GenerationRequest.of("a", heldBy(reached, go)));
    reached.await();
    engine.submit(GenerationRequest.of("b", LONG));
    AtomicReference<Throwable> error = new AtomicReference<>();
    Thread caller =
        new Thread(
            () -> {
              try {
                engine.submit(GenerationRequest.of("c", LONG));
              } catch (RuntimeException e) {
                error.set(e);
              }
            });
    caller.start();
    caller.join(100);
    Thread closer = new Thread(engine::close);
    closer.start();
    caller.join();
    assertThat(error.get()).isInstanceOf(EngineClosedException.class);
    go.countDown();
    closer.join();
  }

  @Test
  void anInterruptedCallerCancelsItsRequest() throws Exception {
    try (Engine engine = engine().build()) {
      SamplingParams slow =
          LONG.toBuilder()
              .logitsProcessor(
                  (prompt, generated, logits) -> {
                    sleep(5);
                    return logits;
                  })
              .build();
      AtomicReference<Throwable> error = new AtomicReference<>();
      Thread caller =
          new Thread(
              () -> {
                try {
                  engine.generate("a", slow);
                } catch (EngineException e) {
                  error.set(e);
                }
              });
      caller.start();
      Thread.sleep(50);
      caller.interrupt();
      caller.join();
      assertThat(error.get()).hasMessageContaining("Interrupted");
      engine.generate("a", LONG);
      assertThat(engine.metrics().finished()).containsEntry(FinishReason.CANCELLED, 1L);
    }
  }

  @Test
  void withoutChunkingAPromptIsComputedInOneStep() {
    try (Engine engine =
        engine().chunkedPrefill(false).maxBatchSize(4).maxBatchTokens(32).build()) {
      SamplingParams one = LONG.toBuilder().maxTokens(1).build();
      long before = engine.metrics().steps();
      engine.generate(GenerationRequest.of(new int[32], one));
      assertThat(engine.metrics().steps() - before).isEqualTo(1);
      assertThatThrownBy(() -> engine.submit(GenerationRequest.of(new int[33], one)))
          .isInstanceOf(RequestTooLargeException.class)
          .hasMessageContaining("33")
          .hasMessageContaining("chunkedPrefill");
    }
    try (Engine engine = engine().maxBatchSize(4).maxBatchTokens(32).build()) {
      SamplingParams one = LONG.toBuilder().maxTokens(1).build();
      engine.generate(GenerationRequest.of(new int[33], one));
      assertThat(engine.metrics().steps()).isEqualTo(2);
    }
  }

  private static void sleep(long millis) {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
