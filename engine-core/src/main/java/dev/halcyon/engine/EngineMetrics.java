package dev.halcyon.engine;

import java.util.Map;

/**
 * The engine's state at the end of a step, and its memory as it is now; counters run since it was
 * opened.
 *
 * @param runningSequences sequences in the batch
 * @param waitingSequences sequences that wait for a first or another turn
 * @param totalBlocks blocks of the KV cache
 * @param freeBlocks blocks that are free, or cached and not in use
 * @param steps steps run
 * @param promptTokens prompt tokens computed or reused
 * @param reusedTokens prompt tokens taken from the prefix cache
 * @param generatedTokens tokens sampled
 * @param pauses how often a sequence was paused for want of blocks
 * @param tokensPerSecond tokens sampled per second of stepping, over about the last ten seconds of
 *     it
 * @param finished ended outputs by reason
 * @param deviceMemory bytes of device memory by what they are used for
 * @param hostMemoryUsed bytes of host memory held by results that the device had no room for; on a
 *     GPU that computes in 16 bits, by one row of logits too
 * @param pinnedPrompts computed prompts that wait to be fetched by another engine
 * @param receivingPrompts prompts that are on their way from another engine
 */
public record EngineMetrics(
    int runningSequences,
    int waitingSequences,
    int totalBlocks,
    int freeBlocks,
    long steps,
    long promptTokens,
    long reusedTokens,
    long generatedTokens,
    long pauses,
    double tokensPerSecond,
    Map<FinishReason, Long> finished,
    DeviceMemoryUse deviceMemory,
    long hostMemoryUsed,
    int pinnedPrompts,
    int receivingPrompts) {

  public EngineMetrics {
    finished = Map.copyOf(finished);
  }

  /** Bytes of device memory in use, results that lie there included. */
  public long deviceMemoryUsed() {
    return deviceMemory.total();
  }
}
