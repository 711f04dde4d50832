package dev.halcyon.engine.sampling;

import dev.halcyon.engine.LogitsProcessor;
import java.util.Map;
import java.util.Set;

/**
 * How to sample, with every default filled in.
 *
 * @param temperature above 0; 0 for greedy
 * @param topK keep the k most likely tokens; 0 for all
 * @param topP keep the smallest set of tokens with this probability, in (0, 1]
 * @param minP keep tokens at least this likely relative to the most likely, in [0, 1]
 * @param repetitionPenalty above 0; 1 for none; over prompt and output
 * @param presencePenalty subtracted from tokens that occur in the output
 * @param frequencyPenalty subtracted per occurrence in the output
 * @param logitBias added to logits, by token id
 * @param minTokens end and stop ids are ruled out while fewer tokens than this were generated
 * @param endIds ids ruled out until minTokens
 * @param processor a caller's own change, before all else, or null
 */
public record SamplingSettings(
    float temperature,
    int topK,
    float topP,
    float minP,
    float repetitionPenalty,
    float presencePenalty,
    float frequencyPenalty,
    Map<Integer, Float> logitBias,
    int minTokens,
    Set<Integer> endIds,
    LogitsProcessor processor) {

  public SamplingSettings {
    logitBias = Map.copyOf(logitBias);
    endIds = Set.copyOf(endIds);
  }

  /** Whether the most likely token is always taken. */
  public boolean greedy() {
    return temperature == 0 || topK == 1;
  }
}
