package dev.halcyon.engine;

import java.util.List;

/**
 * One of a request's outputs. Text, ids, logprobs and logits are trimmed together: they have the
 * same number of tokens.
 *
 * @param index which of the n samples, from 0
 * @param text the generated text; empty when detokenize is off
 * @param tokenIds the generated ids
 * @param finishReason why it ended
 * @param stopString the stop string that matched, or null
 * @param stopTokenId the stop or end id that came, or null
 * @param logprobs one entry per id, or null if not asked for
 * @param generationLogits [tokenIds, vocabSize], or null if not asked for; row 0 comes from the
 *     last prompt position
 */
public record GenerationOutput(
    int index,
    String text,
    List<Integer> tokenIds,
    FinishReason finishReason,
    String stopString,
    Integer stopTokenId,
    List<TokenLogprobs> logprobs,
    LogitsView generationLogits) {

  public GenerationOutput {
    tokenIds = List.copyOf(tokenIds);
    logprobs = logprobs == null ? null : List.copyOf(logprobs);
  }

  /** The sum of the chosen tokens' logprobs; NaN if logprobs were not asked for. */
  public double cumulativeLogprob() {
    return logprobs == null
        ? Double.NaN
        : logprobs.stream().mapToDouble(entry -> entry.chosen().logprob()).sum();
  }
}
