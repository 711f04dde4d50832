package dev.halcyon.engine.executor;

import dev.halcyon.engine.CapacityPolicy;
import dev.halcyon.engine.RequestTooLargeException;
import dev.halcyon.engine.executor.ActiveRequest.RequestSpec;
import dev.halcyon.engine.kvcache.KvCacheManager;

/** What a request may ask for at most, so that it can run at all. For any thread. */
final class RequestLimits {

  private final ExecutorOptions options;
  private final KvCacheManager kv;
  private final BlockBudget budget;

  RequestLimits(ExecutorOptions options, KvCacheManager kv) {
    this.options = options;
    this.kv = kv;
    this.budget = new BlockBudget(kv);
  }

  /**
   * Refuses what could never be scheduled.
   *
   * @throws RequestTooLargeException if it asks for more samples, tokens or blocks than there are
   */
  void require(RequestSpec spec) {
    int samples = spec.params().n();
    if (samples > options.maxBatchSize()) {
      throw new RequestTooLargeException(
          "n = " + samples + " samples exceed maxBatchSize " + options.maxBatchSize());
    }
    int promptLength = spec.prompt().length;
    if (!options.chunkedPrefill() && promptLength > options.maxBatchTokens()) {
      throw new RequestTooLargeException(
          String.format(
              "A prompt of %d tokens exceeds maxBatchTokens %d, and chunkedPrefill is off",
              promptLength, options.maxBatchTokens()));
    }
    long blocks = blocks(spec);
    if (blocks > kv.totalBlocks()) {
      throw new RequestTooLargeException(
          String.format(
              "The request may need %d KV blocks of %d tokens, and the cache has %d;"
                  + " ask for fewer tokens or samples, or give the engine a larger cache",
              blocks, kv.blockSize(), kv.totalBlocks()));
    }
  }

  private long blocks(RequestSpec spec) {
    if (spec.split().contextOnly()) {
      return kv.blocksFor(spec.prompt().length);
    }
    // Without a guarantee samples are paused one by one, so that each needs to fit alone.
    boolean guaranteed = options.capacityPolicy() == CapacityPolicy.GUARANTEED_NO_EVICT;
    return budget.worstCase(
        spec.prompt().length, spec.maxTokens(), guaranteed ? spec.params().n() : 1);
  }
}
