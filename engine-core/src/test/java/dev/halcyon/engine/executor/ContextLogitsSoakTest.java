package dev.halcyon.engine.executor;

import static dev.halcyon.engine.executor.ContextRig.both;
import static dev.halcyon.engine.executor.ContextRig.compact;
import static dev.halcyon.engine.executor.ContextRig.full;
import static dev.halcyon.engine.executor.ContextRig.fullBytes;
import static dev.halcyon.engine.executor.ContextRig.greedy;
import static dev.halcyon.engine.executor.ContextRig.prompt;
import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.CapacityPolicy;
import dev.halcyon.engine.EngineMetrics;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.RequestOutOfMemoryException;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.TinyCheckpoint;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Hundreds of requests from several callers over so little device and host memory that both run out
 * again and again: what finishes is right, what fails failed for want of memory, and the engine is
 * back in full service afterwards.
 */
@Timeout(120)
public class ContextLogitsSoakTest {

  /** What the engines compute on. */
  protected TestBackend backend() {
    return TestBackend.CPU;
  }

  private static final int CALLERS = 6;
  private static final int REQUESTS_EACH = 60;
  private static final int IN_FLIGHT = 4;

  /** How many results a caller holds before it closes the oldest. */
  private static final int HELD = 4;

  /** Room for two results of the longest prompts, on the device and on the host each. */
  private static final long ROOM = fullBytes(2 * 200);

  @TempDir static Path directory;
  private static Path checkpoint;

  @BeforeAll
  static void writeCheckpoint() {
    checkpoint = TinyCheckpoint.write(directory.resolve("tiny"));
  }

  /** What became of the requests. */
  private record Tally(
      AtomicInteger whole,
      AtomicInteger cancelled,
      AtomicInteger timedOut,
      AtomicInteger failed,
      AtomicLong mostOnHost) {

    Tally() {
      this(
          new AtomicInteger(),
          new AtomicInteger(),
          new AtomicInteger(),
          new AtomicInteger(),
          new AtomicLong());
    }
  }

  /** What one request gives alone; the same wants and length are the same request. */
  private record Wanted(int length, SamplingParams params) {}

  @ParameterizedTest
  @EnumSource
  void theEngineReturnsToFullServiceAfterRunningOut(CapacityPolicy policy) throws Exception {
    List<SamplingParams> wants =
        List.of(
            greedy().maxTokens(20).build(),
            greedy().n(2).maxTokens(6).build(),
            full(),
            full().toBuilder().n(2).build(),
            compact(2),
            both(1),
            both(0).toBuilder().maxTokens(12).build());
    int[] lengths = {1, 7, 33, 64, 91, 128, 200};
    Map<Wanted, Answer> alone = answers(wants, lengths);
    try (ContextRig rig = open(policy)) {
      rig.backend.hostBudget(ROOM);
      Tally tally = new Tally();
      ExecutorService callers = Executors.newFixedThreadPool(CALLERS);
      List<Future<Deque<GenerationResult>>> shares = new ArrayList<>();
      for (int caller = 0; caller < CALLERS; caller++) {
        Random random = new Random(97L * caller + policy.ordinal());
        shares.add(callers.submit(() -> call(rig, random, wants, lengths, alone, tally)));
      }
      List<GenerationResult> late = new ArrayList<>();
      for (Future<Deque<GenerationResult>> share : shares) {
        late.addAll(share.get(100, TimeUnit.SECONDS));
      }
      callers.shutdown();
      assertThat(tally.failed()).as("both memories ran out").hasPositiveValue();
      assertThat(tally.mostOnHost()).as("the device ran out").hasPositiveValue();
      assertThat(tally.mostOnHost()).hasValueLessThanOrEqualTo(ROOM);
      assertThat(tally.cancelled()).hasPositiveValue();
      assertThat(tally.timedOut()).hasPositiveValue();
      assertThat(tally.whole()).hasValueGreaterThan(CALLERS * REQUESTS_EACH / 2);
      late.forEach(GenerationResult::close);
      assertNothingHeld(rig);
      for (Map.Entry<Wanted, Answer> entry : alone.entrySet()) {
        rig.answer(entry.getKey().length(), entry.getKey().params()).assertSame(entry.getValue());
      }
      assertNothingHeld(rig);
      EngineMetrics metrics = rig.model.executor().metrics();
      assertThat(metrics.deviceMemoryUsed()).isEqualTo(rig.idleBytes);
      assertThat(metrics.hostMemoryUsed()).isZero();
      assertThat(metrics.freeBlocks()).isEqualTo(metrics.totalBlocks());
      rig.close();
      assertThat(rig.backend.deviceUsed()).isZero();
    }
  }

  private Map<Wanted, Answer> answers(List<SamplingParams> wants, int[] lengths) {
    Map<Wanted, Answer> answers = new HashMap<>();
    try (ContextRig rig =
        new ContextRig(
            ContextRig.options(ContextRig.engine(backend(), checkpoint, 256).prefixReuse(false)))) {
      for (SamplingParams params : wants) {
        for (int length : lengths) {
          answers.put(new Wanted(length, params), rig.answer(length, params));
        }
      }
    }
    return answers;
  }

  /** The device has room for the opened engine, and for a little besides. */
  private ContextRig open(CapacityPolicy policy) {
    long opened;
    var builder =
        ContextRig.engine(backend(), checkpoint, 48)
            .capacityPolicy(policy)
            .kvBlockSize(8)
            .kvCacheTokens(640)
            .maxQueuedRequests(CALLERS * (IN_FLIGHT + 1));
    try (ContextRig ample = new ContextRig(ContextRig.options(builder))) {
      opened = ample.idleBytes;
    }
    return new ContextRig(ContextRig.options(builder.deviceMemoryBytes(opened + ROOM)));
  }

  /** One caller's requests, some at a time; returns the results that it closes late. */
  private static Deque<GenerationResult> call(
      ContextRig rig,
      Random random,
      List<SamplingParams> wants,
      int[] lengths,
      Map<Wanted, Answer> alone,
      Tally tally) {
    Deque<GenerationResult> late = new ArrayDeque<>();
    Deque<GenerationHandle> handles = new ArrayDeque<>();
    Deque<Wanted> wanted = new ArrayDeque<>();
    for (int i = 0; i < REQUESTS_EACH + IN_FLIGHT; i++) {
      if (i < REQUESTS_EACH) {
        Wanted next =
            new Wanted(
                lengths[random.nextInt(lengths.length)], wants.get(random.nextInt(wants.size())));
        handles.add(submit(rig, random, next));
        wanted.add(next);
      }
      if (i >= IN_FLIGHT) {
        finish(handles.remove(), alone.get(wanted.remove()), late, tally);
      }
      tally.mostOnHost().accumulateAndGet(rig.backend.hostUsed(), Math::max);
      while (late.size() > HELD) {
        late.remove().close();
      }
    }
    return late;
  }

  private static GenerationHandle submit(ContextRig rig, Random random, Wanted wanted) {
    GenerationRequest.Builder request =
        GenerationRequest.builder(prompt(wanted.length())).params(wanted.params());
    int fate = random.nextInt(10);
    if (fate == 0) {
      request.timeout(Duration.ofNanos(1 + random.nextInt(5_000_000)));
    }
    GenerationHandle handle = rig.submit(request.build());
    if (fate == 1) {
      handle.cancel();
    } else if (fate == 2) {
      Thread.yield();
      handle.cancel();
    }
    return handle;
  }

  private static void finish(
      GenerationHandle handle, Answer expected, Deque<GenerationResult> late, Tally tally) {
    GenerationResult result;
    try {
      result = handle.await();
    } catch (RequestOutOfMemoryException e) {
      assertThat(expected.logits()).as("full logits alone need memory").isNotNull();
      assertThat(e.requestedBytes()).isEqualTo(fullBytes(expected.logits().length));
      tally.failed().incrementAndGet();
      return;
    }
    late.add(result);
    Answer answer = Answer.of(result);
    boolean cancelled = ended(result, FinishReason.CANCELLED);
    boolean timedOut = ended(result, FinishReason.TIMEOUT);
    if (!cancelled && !timedOut) {
      answer.assertSame(expected);
      tally.whole().incrementAndGet();
      return;
    }
    (cancelled ? tally.cancelled() : tally.timedOut()).incrementAndGet();
    for (int i = 0; i < answer.ids().size(); i++) {
      List<Integer> ids = answer.ids().get(i);
      assertThat(ids).isEqualTo(expected.ids().get(i).subList(0, ids.size()));
    }
    if (cancelled) {
      assertThat(answer.logits()).isNull();
    } else if (answer.logits() != null) {
      Answer.assertSameRows(answer.logits(), expected.logits());
    }
  }

  private static boolean ended(GenerationResult result, FinishReason reason) {
    return result.outputs().stream().anyMatch(output -> output.finishReason() == reason);
  }

  private static void assertNothingHeld(ContextRig rig) throws InterruptedException {
    for (int i = 0; i < 200 && rig.model.executor().metrics().runningSequences() > 0; i++) {
      Thread.sleep(10);
    }
    assertThat(rig.backend.deviceUsed()).isEqualTo(rig.idleBytes);
    assertThat(rig.backend.hostUsed()).isZero();
  }
}
