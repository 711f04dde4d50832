package dev.halcyon.engine.benchmarks;

import dev.halcyon.engine.DTypeChoice;
import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.BackendSelector;
import dev.halcyon.engine.backend.HostTensor;
import dev.halcyon.engine.backend.StepLimits;
import dev.halcyon.engine.logits.BatchDescription;
import dev.halcyon.engine.logits.ContextLogits;
import dev.halcyon.engine.logits.ContextLogitsPlan;
import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.logits.FullLogits;
import dev.halcyon.engine.logits.PromptLogprobs;
import dev.halcyon.engine.logits.RankGroup;
import java.lang.management.ManagementFactory;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntConsumer;
import java.util.function.IntFunction;

/**
 * Runs the scenarios of {@link LogitsBenchmark}, each on a backend of its own with the memory that
 * it is about. The same hidden rows stand for every chunk of a prompt.
 */
final class LogitsMeasurement {

  /** Device memory beside what a scenario needs: room for buffers that are optional. */
  private static final long SLACK_BYTES = 128L << 20;

  private static final long SEED = 7;

  /** Without pauses a GPU lowers its clocks. */
  private static final long PAUSE_NANOS = 12_000_000;

  private final String backendName;
  private final int device;
  private final HostTensor weights;
  private final int rows;
  private final int chunkRows;
  private final int threads;
  private final int prompts;

  /**
   * @param backendName what computes
   * @param device which of its devices
   * @param weights [vocabSize, hiddenSize], of the type that a GPU computes in
   * @param rows the prompt's length
   * @param chunkRows the rows of a step
   * @param prompts how many to measure one after the other
   */
  LogitsMeasurement(
      String backendName,
      int device,
      HostTensor weights,
      int rows,
      int chunkRows,
      int threads,
      int prompts) {
    this.backendName = backendName;
    this.device = device;
    this.weights = weights;
    this.rows = rows;
    this.chunkRows = Math.min(rows, chunkRows);
    this.threads = threads;
    this.prompts = prompts;
  }

  /**
   * Measures one run: the best of its prompts. Where the first time is what is measured, it has one
   * prompt.
   *
   * @param warmUp whether to compute one step first that is not measured
   */
  LogitsCost measure(LogitsScenario scenario, boolean warmUp) {
    BackendOptions options =
        new BackendOptions(
            threads,
            deviceBytes(scenario),
            // All rows, and the last one again on its way.
            FullLogits.bytes(rows + 1, vocabSize()),
            device,
            DTypeChoice.AUTO,
            weights.dtype());
    try (Backend backend = BackendSelector.onClassPath().open(backendName, options);
        RandomHead head = new RandomHead(backend, weights);
        DeviceBuffer hidden = RandomRows.of(backend, chunkRows, weights.cols(), SEED)) {
      return scenario == LogitsScenario.BARE
          ? bare(backend, head, hidden, warmUp)
          : planned(backend, head, hidden, scenario, warmUp);
    }
  }

  private int vocabSize() {
    return weights.rows();
  }

  private long deviceBytes(LogitsScenario scenario) {
    // Weights and the table of the hidden rows too, which a GPU holds in its memory.
    long needed =
        (weights.dtype().bytes() + (long) Float.BYTES) * chunkRows * weights.cols()
            + (long) weights.dtype().bytes() * vocabSize() * weights.cols();
    int stored =
        switch (scenario) {
          case BARE -> chunkRows;
          case FULL_ON_DEVICE -> rows;
          default -> 0;
        };
    return needed
        + FullLogits.bytes(stored, vocabSize())
        + 2 * FullLogits.bytes(ContextLogitsPlan.RESIDENT_ROWS, vocabSize())
        + SLACK_BYTES;
  }

  /** The projection alone, chunk by chunk into one buffer. */
  private LogitsCost bare(Backend backend, RandomHead head, DeviceBuffer hidden, boolean warmUp) {
    long bytes = backend.activationBytes(chunkRows, vocabSize());
    try (DeviceBuffer out = backend.memory().allocate(bytes, "logits")) {
      prepare(backend, count -> head.project(hidden, count, out));
      // Also touches the buffer, whose pages are no part of the projection.
      head.project(hidden, warmUp ? chunkRows : 1, out);
      return best(prompts, prompt -> bare(backend, head, hidden, out));
    }
  }

  /** The best of some prompts, each a while after the one before. */
  private static LogitsCost best(int prompts, IntFunction<LogitsCost> run) {
    LogitsCost best = run.apply(0);
    for (int prompt = 1; prompt < prompts; prompt++) {
      LockSupport.parkNanos(PAUSE_NANOS);
      best = best.best(run.apply(prompt));
    }
    return best;
  }

  private LogitsCost bare(Backend backend, RandomHead head, DeviceBuffer hidden, DeviceBuffer out) {
    backend.synchronize();
    long start = System.nanoTime();
    for (int position = 0; position < rows; position += chunkRows) {
      head.project(hidden, Math.min(chunkRows, rows - position), out);
    }
    backend.synchronize();
    return new LogitsCost(seconds(start), 0, out.bytes(), 0);
  }

  private LogitsCost planned(
      Backend backend,
      RandomHead head,
      DeviceBuffer hidden,
      LogitsScenario scenario,
      boolean warmUp) {
    PeakDevice device = new PeakDevice(backend, scenario.onHost());
    long before = backend.memory().used();
    try (ContextLogitsPlan plan = new ContextLogitsPlan(head, device, RankGroup.single())) {
      plan.warmUp(hidden, chunkRows);
      prepare(backend, count -> plan.tryOut(hidden, count));
      long workspace = backend.memory().used() - before;
      if (scenario == LogitsScenario.FULL_ON_HOST_AGAIN) {
        warmUp(plan, hidden, scenario, rows);
      } else if (warmUp) {
        warmUp(plan, hidden, scenario, chunkRows);
      }
      int count = scenario == LogitsScenario.FULL_ON_HOST ? 1 : prompts;
      LogitsCost best =
          best(
              count,
              prompt ->
                  measure(
                      backend, plan, device, hidden, scenario, before + workspace, prompt == 0));
      return new LogitsCost(best.seconds(), workspace, best.requestBytes(), best.hostBytes());
    }
  }

  /**
   * @param resident the device memory that is held all the time
   * @param heap whether the Java heap is measured too, for which its garbage is collected before:
   *     that leaves processors' caches cold, as nothing does before a prompt of a service
   */
  private LogitsCost measure(
      Backend backend,
      ContextLogitsPlan plan,
      PeakDevice device,
      DeviceBuffer hidden,
      LogitsScenario scenario,
      long resident,
      boolean heap) {
    device.restart();
    long heapBefore = heap ? usedHeap() : 0;
    long start = System.nanoTime();
    try (ContextLogits target = open(plan, rows, scenario)) {
      project(plan, target, hidden);
      backend.synchronize();
      double seconds = seconds(start);
      long heapBytes = heap ? Math.max(0, usedHeap() - heapBefore) : 0;
      requirePlace(target, scenario);
      return new LogitsCost(
          seconds, 0, device.peakBytes() - resident, device.peakHostBytes() + heapBytes);
    }
  }

  /** As an engine does when it opens. */
  private void prepare(Backend backend, IntConsumer projection) {
    backend.warmUp(
        new StepLimits(chunkRows, 1, chunkRows), batch -> projection.accept(batch.rows()));
  }

  /** A method of its own, so that nothing of it is on the stack when the heap is measured. */
  private void warmUp(
      ContextLogitsPlan plan, DeviceBuffer hidden, LogitsScenario scenario, int count) {
    try (ContextLogits first = open(plan, count, scenario)) {
      project(plan, first, hidden);
    }
  }

  private static ContextLogits open(ContextLogitsPlan plan, int rows, LogitsScenario scenario) {
    Integer topK = scenario.topK();
    return plan.open(
        "benchmark",
        rows,
        scenario.full(),
        topK == null ? null : new PromptLogprobs(new int[rows], topK, true));
  }

  private void project(ContextLogitsPlan plan, ContextLogits target, DeviceBuffer hidden) {
    while (!target.complete()) {
      int position = target.scored();
      int count = Math.min(chunkRows, target.promptLength() - position);
      plan.project(target, BatchDescription.PLAIN, hidden, 0, position, count, null);
    }
  }

  /** A figure must not stand for another scenario than it says. */
  private static void requirePlace(ContextLogits target, LogitsScenario scenario) {
    try (FullLogits full = target.takeFull()) {
      boolean right =
          full == null
              ? !scenario.full()
              : full.onDevice() == (scenario == LogitsScenario.FULL_ON_DEVICE);
      if (!right) {
        throw new IllegalStateException("the rows of '" + scenario.title() + "' lie elsewhere");
      }
    }
  }

  private static double seconds(long start) {
    return (System.nanoTime() - start) / 1e9;
  }

  private static long usedHeap() {
    System.gc();
    return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
  }
}
