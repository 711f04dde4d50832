package dev.halcyon.engine.executor;

import dev.halcyon.engine.kvcache.KvCacheManager;

/** How many KV blocks a request may come to need. */
final class BlockBudget {

  private final KvCacheManager kv;

  BlockBudget(KvCacheManager kv) {
    this.kv = kv;
  }

  /**
   * The most blocks that a request ever holds. The last token is never computed, so it needs no
   * place; a prompt's last block, if partly filled, is copied for each sample but one.
   */
  long worstCase(int promptLength, int maxTokens, int samples) {
    long prompt = kv.blocksFor(promptLength);
    long total = kv.blocksFor(promptLength + maxTokens - 1);
    return prompt + samples * (total - prompt) + copies(promptLength, samples);
  }

  /** The blocks that a running sequence, and those that will fork from it, may still take. */
  long outstanding(Sequence sequence) {
    ActiveRequest request = sequence.request();
    if (request.spec().split().contextOnly()) {
      return kv.blocksFor(sequence.promptLength()) - sequence.table().size();
    }
    int held = sequence.table().size();
    int promptLength = sequence.promptLength();
    int maxTokens = request.spec().maxTokens();
    if (!request.forked()) {
      return worstCase(promptLength, maxTokens, request.samples()) - held;
    }
    // While the prompt's last block may still be shared, count its copy too.
    boolean shared = request.samples() > 1 && sequence.computed() == promptLength;
    return kv.blocksFor(promptLength + maxTokens - 1) - held + (shared ? 1 : 0);
  }

  private long copies(int promptLength, int samples) {
    boolean partial = promptLength % kv.blockSize() != 0;
    return partial ? samples - 1 : 0;
  }
}
