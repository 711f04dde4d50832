package dev.halcyon.engine.executor;

import dev.halcyon.engine.EngineMetrics;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.kvcache.KvCacheManager;
import java.util.EnumMap;
import java.util.Map;
import java.util.function.LongSupplier;

/** Counts on the executor's thread, and publishes a snapshot that any thread may read. */
final class MetricsRecorder {

  private static final long WINDOW_NANOS = 10_000_000_000L;

  private final KvCacheManager kv;
  private final Scheduler scheduler;
  private final LongSupplier deviceMemoryUsed;
  private final LongSupplier hostMemoryUsed;
  private final Map<FinishReason, Long> finished = new EnumMap<>(FinishReason.class);
  private final RateWindow rate = new RateWindow(WINDOW_NANOS);
  private long steps;
  private long promptTokens;
  private long reusedTokens;
  private long generatedTokens;
  private volatile EngineMetrics snapshot;

  MetricsRecorder(
      KvCacheManager kv,
      Scheduler scheduler,
      LongSupplier deviceMemoryUsed,
      LongSupplier hostMemoryUsed) {
    this.kv = kv;
    this.scheduler = scheduler;
    this.deviceMemoryUsed = deviceMemoryUsed;
    this.hostMemoryUsed = hostMemoryUsed;
    publish();
  }

  EngineMetrics snapshot() {
    return snapshot;
  }

  void promptStarted(int length, int reused) {
    promptTokens += length;
    reusedTokens += reused;
  }

  void step(int sampled, long nanos) {
    steps++;
    generatedTokens += sampled;
    rate.add(nanos, sampled);
    publish();
  }

  void finished(FinishReason reason) {
    finished.merge(reason, 1L, Long::sum);
  }

  void publish() {
    snapshot =
        snapshot(
            scheduler.runningCount(),
            scheduler.waitingCount(),
            kv.availableBlocks(),
            rate.perSecond());
  }

  /** The last snapshot, once nothing runs any more and memory was freed. */
  void close() {
    snapshot = snapshot(0, 0, kv.totalBlocks(), 0);
  }

  private EngineMetrics snapshot(int running, int waiting, int freeBlocks, double perSecond) {
    return new EngineMetrics(
        running,
        waiting,
        kv.totalBlocks(),
        freeBlocks,
        steps,
        promptTokens,
        reusedTokens,
        generatedTokens,
        scheduler.pauses(),
        perSecond,
        finished,
        deviceMemoryUsed.getAsLong(),
        hostMemoryUsed.getAsLong());
  }
}
