package dev.halcyon.engine.executor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.halcyon.engine.CapacityPolicy;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.EngineMetrics;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationDelta;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationOutput;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.TokenLogprobs;
import dev.halcyon.engine.executor.RandomRequests.Case;
import dev.halcyon.engine.executor.RandomRequests.Fate;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.TestInstance.Lifecycle;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Thousands of requests of every kind from several threads over a small cache. Whatever is in the
 * batch, each gives what it gives alone; blocks and memory come back.
 */
@TestInstance(Lifecycle.PER_CLASS)
public class RandomizedExecutorTest {

  /** What the engines compute on. */
  protected TestBackend backend() {
    return TestBackend.CPU;
  }

  private static final int REQUESTS = 270;
  private static final int CALLERS = 4;
  private static final int BLOCK = 4;

  @TempDir static Path directory;
  private static Path checkpoint;

  @BeforeAll
  static void writeCheckpoint() {
    checkpoint = TinyCheckpoint.write(directory.resolve("tiny"));
  }

  /** Eight settings of 270 requests each: 2,160 in all. */
  protected Stream<Arguments> settings() {
    return Stream.of(CapacityPolicy.values())
        .flatMap(
            policy ->
                Stream.of(BLOCK, 2 * BLOCK + 1, 64, 4096)
                    .map(tokens -> Arguments.of(policy, tokens)));
  }

  @ParameterizedTest(name = "{0}, {1} tokens a step")
  @MethodSource("settings")
  void everyRequestGivesWhatItGivesAlone(CapacityPolicy policy, int maxBatchTokens)
      throws Exception {
    RandomRequests requests = new RandomRequests(maxBatchTokens * 31L + policy.ordinal());
    List<Case> cases = new ArrayList<>();
    for (int i = 0; i < REQUESTS; i++) {
      cases.add(requests.next());
    }
    EngineBuilder builder =
        engine().capacityPolicy(policy).maxBatchTokens(maxBatchTokens).kvCacheTokens(44 * BLOCK);
    EngineMetrics end;
    try (Engine engine = builder.maxBatchSize(Math.min(8, maxBatchTokens)).build();
        Engine alone = engine().prefixReuse(false).maxBatchTokens(4096).build()) {
      List<Future<List<GenerationResult>>> shares = new ArrayList<>();
      ExecutorService callers = Executors.newFixedThreadPool(CALLERS);
      for (int caller = 0; caller < CALLERS; caller++) {
        int first = caller;
        shares.add(callers.submit(() -> runShare(engine, cases, first)));
      }
      for (int caller = 0; caller < CALLERS; caller++) {
        List<GenerationResult> results = shares.get(caller).get(5, TimeUnit.MINUTES);
        for (int i = 0; i < results.size(); i++) {
          Case one = cases.get(caller + i * CALLERS);
          assertSameAsAlone(one, results.get(i), alone);
        }
      }
      callers.shutdown();
      assertNothingHeld(engine);
      engine.close();
      end = engine.metrics();
    }
    assertThat(end.deviceMemoryUsed()).isZero();
    assertThat(end.hostMemoryUsed()).isZero();
    if (policy == CapacityPolicy.MAX_UTILIZATION && maxBatchTokens > BLOCK) {
      // With one block a step too few sequences run at once to fill the cache for certain.
      assertThat(end.pauses()).as("the cache is small enough to make pauses").isPositive();
    } else if (policy == CapacityPolicy.GUARANTEED_NO_EVICT) {
      assertThat(end.pauses()).isZero();
    }
    assertThat(end.reusedTokens()).isPositive();
  }

  private EngineBuilder engine() {
    return backend().engine().model(checkpoint).kvBlockSize(BLOCK).threads(2).integrityChecks(true);
  }

  /** Submits every fourth case, up to eight at a time, and sees each to its end. */
  private static List<GenerationResult> runShare(Engine engine, List<Case> cases, int first) {
    List<GenerationResult> results = new ArrayList<>();
    List<GenerationHandle> open = new ArrayList<>();
    List<Integer> numbers = new ArrayList<>();
    for (int i = first; i < cases.size(); i += CALLERS) {
      numbers.add(i);
    }
    for (int from = 0; from < numbers.size(); from += 8) {
      List<Integer> group = numbers.subList(from, Math.min(from + 8, numbers.size()));
      open.clear();
      for (int number : group) {
        open.add(engine.submit(cases.get(number).request()));
      }
      for (int k = 0; k < group.size(); k++) {
        results.add(seeThrough(cases.get(group.get(k)), open.get(k)));
      }
    }
    return results;
  }

  private static GenerationResult seeThrough(Case one, GenerationHandle handle) {
    if (one.fate() == Fate.CANCELLED) {
      try (Stream<GenerationDelta> deltas = handle.stream()) {
        Iterator<GenerationDelta> iterator = deltas.iterator();
        for (int seen = 0; seen < one.cancelAfter() && iterator.hasNext(); seen++) {
          iterator.next();
        }
        handle.cancel();
      }
    } else if (handle.requestId() % 3 == 0) {
      assertDeltasAddUp(handle);
    }
    return handle.await();
  }

  private static void assertDeltasAddUp(GenerationHandle handle) {
    List<GenerationDelta> deltas = handle.stream().toList();
    GenerationResult result = handle.await();
    assertRowsInFirstDeltaAlone(deltas, result);
    for (GenerationOutput output : result.outputs()) {
      StringBuilder text = new StringBuilder();
      List<Integer> ids = new ArrayList<>();
      FinishReason reason = null;
      for (GenerationDelta delta : deltas) {
        if (delta.index() == output.index()) {
          assertThat(reason).as("no delta after the last one").isNull();
          text.append(delta.text());
          ids.addAll(delta.tokenIds());
          reason = delta.finishReason();
        }
      }
      assertThat(text.toString()).isEqualTo(output.text());
      assertThat(ids).isEqualTo(output.tokenIds());
      assertThat(reason).isEqualTo(output.finishReason());
    }
  }

  private static void assertRowsInFirstDeltaAlone(
      List<GenerationDelta> deltas, GenerationResult result) {
    for (int i = 0; i < deltas.size(); i++) {
      assertThat(deltas.get(i).contextLogits()).isSameAs(i == 0 ? result.contextLogits() : null);
      assertThat(deltas.get(i).promptLogprobs()).isEqualTo(i == 0 ? result.promptLogprobs() : null);
    }
  }

  private void assertSameAsAlone(Case one, GenerationResult result, Engine alone) {
    boolean early =
        result.outputs().stream()
            .anyMatch(
                output ->
                    output.finishReason() == FinishReason.CANCELLED
                        || output.finishReason() == FinishReason.TIMEOUT);
    if (early) {
      assertThat(one.fate()).isNotEqualTo(Fate.RUNS);
    }
    GenerationResult expected = alone.generate(one.untimed());
    GenerationResult unstopped = early ? alone.generate(one.unstopped()) : null;
    for (GenerationOutput output : result.outputs()) {
      boolean cut =
          output.finishReason() == FinishReason.CANCELLED
              || output.finishReason() == FinishReason.TIMEOUT;
      if (cut) {
        List<Integer> all = unstopped.outputs().get(output.index()).tokenIds();
        assertThat(output.tokenIds()).isEqualTo(all.subList(0, output.tokenIds().size()));
      } else {
        assertSame(output, expected.outputs().get(output.index()));
      }
    }
    assertSameRowsOfPrompt(one, result, expected, early);
    result.close();
    expected.close();
    if (early) {
      unstopped.close();
    }
  }

  /** A request that ended early may have what it got of its prompt before. */
  private void assertSameRowsOfPrompt(
      Case one, GenerationResult result, GenerationResult expected, boolean early) {
    boolean wantsLogits = one.request().params().returnContextLogits();
    boolean wantsLogprobs = one.request().params().promptLogprobs() != null;
    if (!early) {
      assertThat(result.contextLogits() != null).isEqualTo(wantsLogits);
      assertThat(result.promptLogprobs() != null).isEqualTo(wantsLogprobs);
    }
    if (result.contextLogits() != null) {
      assertThat(result.contextLogits().rows()).isEqualTo(one.request().promptIds().length);
      assertSameRows(result.contextLogits(), expected.contextLogits());
    }
    if (result.promptLogprobs() != null) {
      assertThat(result.promptLogprobs()).hasSize(one.request().promptIds().length);
      assertSameLogprobs(result.promptLogprobs(), expected.promptLogprobs());
    }
  }

  private void assertSameRows(LogitsView got, LogitsView expected) {
    backend().assertSameRows(got, expected);
  }

  private void assertSame(GenerationOutput output, GenerationOutput expected) {
    assertThat(output.tokenIds()).isEqualTo(expected.tokenIds());
    assertThat(output.text()).isEqualTo(expected.text());
    assertThat(output.finishReason()).isEqualTo(expected.finishReason());
    assertThat(output.stopString()).isEqualTo(expected.stopString());
    assertThat(output.stopTokenId()).isEqualTo(expected.stopTokenId());
    if (expected.logprobs() == null) {
      assertThat(output.logprobs()).isNull();
    } else {
      assertSameLogprobs(output.logprobs(), expected.logprobs());
    }
    if (expected.generationLogits() == null) {
      assertThat(output.generationLogits()).isNull();
    } else {
      assertThat(output.generationLogits().rows()).isEqualTo(output.tokenIds().size());
      assertSameRows(output.generationLogits(), expected.generationLogits());
    }
  }

  private void assertSameLogprobs(List<TokenLogprobs> got, List<TokenLogprobs> expected) {
    assertThat(got).hasSameSizeAs(expected);
    for (int i = 0; i < got.size(); i++) {
      assertThat(got.get(i).entries().keySet()).isEqualTo(expected.get(i).entries().keySet());
      // Rounding may put a token and its neighbour by rank the other way round.
      assertThat(got.get(i).chosen().rank())
          .isCloseTo(expected.get(i).chosen().rank(), within(backend().rounding() > 0 ? 1 : 0));
      assertThat(got.get(i).chosen().logprob())
          .isCloseTo(expected.get(i).chosen().logprob(), within(1e-5f));
    }
  }

  private static void assertNothingHeld(Engine engine) throws InterruptedException {
    for (int i = 0; i < 200 && engine.metrics().runningSequences() > 0; i++) {
      Thread.sleep(10);
    }
    EngineMetrics metrics = engine.metrics();
    assertThat(metrics.runningSequences()).isZero();
    assertThat(metrics.waitingSequences()).isZero();
    assertThat(metrics.freeBlocks()).isEqualTo(metrics.totalBlocks());
    assertThat(metrics.finished().getOrDefault(FinishReason.ERROR, 0L)).isZero();
  }
}
