package dev.halcyon.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineMetrics;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.RequestOutOfMemoryException;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.TinyCheckpoint;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * A device that is really full: another owner takes its memory down to a few MiB while an engine
 * with no budget of its own works. What is handed out is right, what fails is typed and its
 * request's own, and the engine is back in full service when the memory is.
 */
@Tag("gpu")
@Timeout(120)
class CudaExhaustionTest {

  private static final long MIB = 1L << 20;
  private static final int VOCAB = 32_768;
  private static final int LENGTH = 200;

  /** 25 MiB. */
  private static final long RESULT_BYTES = 4L * LENGTH * VOCAB;

  /** The host has room for two results. */
  private static final long HOST_BYTES = 2 * RESULT_BYTES + MIB;

  private static final SamplingParams GREEDY =
      SamplingParams.builder().temperature(0f).maxTokens(8).ignoreEos(true).build();
  private static final SamplingParams BOTH =
      GREEDY.toBuilder().returnContextLogits(true).promptLogprobs(3).build();
  private static final List<SamplingParams> KINDS =
      List.of(BOTH, GREEDY, GREEDY.toBuilder().promptLogprobs(3).build());

  @TempDir static Path directory;
  private static Path checkpoint;

  @BeforeAll
  static void writeCheckpoint() {
    checkpoint = TinyCheckpoint.write(directory.resolve("tiny"), VOCAB);
  }

  private static Engine open() {
    return TestBackends.CUDA
        .engine()
        .model(checkpoint)
        .backend(BackendChoice.CUDA)
        // No budget: the device itself is what ends.
        .deviceMemoryBytes(1L << 40)
        .hostMemoryBytes(HOST_BYTES)
        .maxBatchSize(4)
        .maxBatchTokens(64)
        .kvCacheTokens(2048)
        .prefixReuse(false)
        .build();
  }

  private static GenerationRequest request(SamplingParams params) {
    int[] prompt = new Random(7).ints(LENGTH, 1, VOCAB).toArray();
    return GenerationRequest.of(prompt, params);
  }

  @Test
  void resultsGoToTheHostThenFailAndServiceComesBack() {
    try (Engine engine = open();
        GenerationResult expected = engine.generate(request(BOTH))) {
      long idle = engine.metrics().deviceMemoryUsed() - RESULT_BYTES;
      List<GenerationResult> held = new ArrayList<>();
      int failed = 0;
      try (FullDevice full = new FullDevice()) {
        assertThat(FullDevice.free()).isLessThan(4 * MIB);
        // The pool may have kept some of what it freed before: each result takes of it.
        for (int i = 0; i < 40 && failed < 3; i++) {
          try {
            GenerationResult result = engine.generate(request(BOTH));
            held.add(result);
            assertSame(result, expected);
          } catch (RequestOutOfMemoryException e) {
            failed++;
          }
        }
        assertThat(failed).isEqualTo(3);
        assertThat(engine.metrics().hostMemoryUsed()).isEqualTo(2 * RESULT_BYTES);
        for (SamplingParams other : KINDS.subList(1, KINDS.size())) {
          assertSame(engine.generate(request(other)), expected);
        }
        held.forEach(GenerationResult::close);
        assertThat(engine.metrics().hostMemoryUsed()).isZero();
        try (GenerationResult again = engine.generate(request(BOTH))) {
          assertSame(again, expected);
        }
      }
      List<GenerationResult> after = new ArrayList<>();
      for (int i = 0; i < 8; i++) {
        after.add(engine.generate(request(BOTH)));
        assertSame(after.get(i), expected);
      }
      assertThat(engine.metrics().hostMemoryUsed()).as("all on the device again").isZero();
      assertThat(engine.metrics().deviceMemoryUsed()).isEqualTo(idle + 9 * RESULT_BYTES);
      after.forEach(GenerationResult::close);
      assertThat(engine.metrics().deviceMemoryUsed()).isEqualTo(idle + RESULT_BYTES);
    }
  }

  @Test
  void aFullDeviceUnderLoadFailsRequestsAloneAndNothingElse() throws Exception {
    try (Engine engine = open()) {
      GenerationResult expected = engine.generate(request(BOTH));
      AtomicInteger whole = new AtomicInteger();
      AtomicInteger failed = new AtomicInteger();
      ExecutorService callers = Executors.newFixedThreadPool(4);
      try (FullDevice full = new FullDevice()) {
        List<Future<?>> shares = new ArrayList<>();
        for (int caller = 0; caller < 4; caller++) {
          Random random = new Random(caller);
          shares.add(callers.submit(() -> call(engine, random, expected, whole, failed)));
        }
        for (Future<?> share : shares) {
          share.get(60, TimeUnit.SECONDS);
        }
      }
      callers.shutdown();
      assertThat(failed).hasPositiveValue();
      assertThat(whole).hasValueGreaterThan(40);
      for (SamplingParams params : KINDS) {
        try (GenerationResult result = engine.generate(request(params))) {
          assertSame(result, expected);
        }
      }
      expected.close();
      EngineMetrics metrics = engine.metrics();
      assertThat(metrics.hostMemoryUsed()).isZero();
      assertThat(metrics.freeBlocks()).isEqualTo(metrics.totalBlocks());
      engine.close();
      assertThat(engine.metrics().deviceMemoryUsed()).isZero();
    }
  }

  /** Thirty requests, of which up to three results are held at a time. */
  private static void call(
      Engine engine,
      Random random,
      GenerationResult expected,
      AtomicInteger whole,
      AtomicInteger failed) {
    Deque<GenerationResult> held = new ArrayDeque<>();
    Deque<GenerationHandle> running = new ArrayDeque<>();
    for (int i = 0; i < 30; i++) {
      running.add(engine.submit(request(KINDS.get(random.nextInt(KINDS.size())))));
      if (running.size() < 3) {
        continue;
      }
      try {
        GenerationResult result = running.remove().await();
        assertSame(result, expected);
        whole.incrementAndGet();
        held.add(result);
      } catch (RequestOutOfMemoryException e) {
        failed.incrementAndGet();
      }
      if (held.size() > 3) {
        held.remove().close();
      }
    }
    for (GenerationHandle handle : running) {
      try {
        held.add(handle.await());
      } catch (RequestOutOfMemoryException e) {
        failed.incrementAndGet();
      }
    }
    held.forEach(GenerationResult::close);
  }

  /** What a result has is what the request gave on an empty device. */
  private static void assertSame(GenerationResult result, GenerationResult expected) {
    assertThat(result.outputs().get(0).tokenIds()).isEqualTo(expected.outputs().get(0).tokenIds());
    LogitsView rows = result.contextLogits();
    if (rows != null) {
      TestBackends.CUDA.assertSameRows(rows, expected.contextLogits());
    }
    if (result.promptLogprobs() != null) {
      assertThat(result.promptLogprobs()).hasSize(LENGTH);
      for (int i = 0; i < LENGTH; i++) {
        assertThat(result.promptLogprobs().get(i).entries().keySet())
            .isEqualTo(expected.promptLogprobs().get(i).entries().keySet());
      }
    }
  }
}
