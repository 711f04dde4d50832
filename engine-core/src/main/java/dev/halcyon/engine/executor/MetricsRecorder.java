package dev.halcyon.engine.executor;

import dev.halcyon.engine.DeviceMemoryUse;
import dev.halcyon.engine.EngineMetrics;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.kvcache.KvCacheManager;
import java.util.EnumMap;
import java.util.Map;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/** Counts on the executor's thread, and publishes a snapshot that any thread may read. */
final class MetricsRecorder {

  private static final long WINDOW_NANOS = 10_000_000_000L;

  private final KvCacheManager kv;
  private final Scheduler scheduler;
  private final KvTransfers transfers;
  private final Supplier<DeviceMemoryUse> deviceMemory;
  private final LongSupplier hostMemoryUsed;
  private final Map<FinishReason, Long> finished = new EnumMap<>(FinishReason.class);
  private final RateWindow rate = new RateWindow(WINDOW_NANOS);
  private long steps;
  private long promptTokens;
  private long reusedTokens;
  private long generatedTokens;
  private volatile Supplier<EngineMetrics> latest;

  MetricsRecorder(
      KvCacheManager kv,
      Scheduler scheduler,
      KvTransfers transfers,
      Supplier<DeviceMemoryUse> deviceMemory,
      LongSupplier hostMemoryUsed) {
    this.kv = kv;
    this.scheduler = scheduler;
    this.transfers = transfers;
    this.deviceMemory = deviceMemory;
    this.hostMemoryUsed = hostMemoryUsed;
    publish();
  }

  EngineMetrics snapshot() {
    return latest.get();
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
    latest =
        read(
            scheduler.runningCount(),
            scheduler.waitingCount(),
            kv.availableBlocks(),
            rate.perSecond());
  }

  /** The last state, once nothing runs any more and memory was freed. */
  void close() {
    latest = read(0, 0, kv.totalBlocks(), 0);
  }

  /**
   * The state as of now, but for memory: callers free results whether or not anything runs, and it
   * is read when asked for.
   */
  private Supplier<EngineMetrics> read(int running, int waiting, int freeBlocks, double perSecond) {
    long stepsNow = steps;
    long promptTokensNow = promptTokens;
    long reusedTokensNow = reusedTokens;
    long generatedTokensNow = generatedTokens;
    long pausesNow = scheduler.pauses();
    int pinnedNow = transfers.pinnedCount();
    int receivingNow = transfers.receivingCount();
    Map<FinishReason, Long> finishedNow = Map.copyOf(finished);
    return () ->
        new EngineMetrics(
            running,
            waiting,
            kv.totalBlocks(),
            freeBlocks,
            stepsNow,
            promptTokensNow,
            reusedTokensNow,
            generatedTokensNow,
            pausesNow,
            perSecond,
            finishedNow,
            deviceMemory.get(),
            hostMemoryUsed.getAsLong(),
            pinnedNow,
            receivingNow);
  }
}
