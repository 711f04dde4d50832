package dev.halcyon.engine;

import java.util.Collections;
import java.util.List;

/**
 * What is new in one output since its previous delta. The deltas of an output, joined, are its
 * {@link GenerationOutput}. The request's first delta also has what was asked of the prompt.
 *
 * @param index which of the n samples, from 0
 * @param text the new text; may be empty while a character or a possible stop string is incomplete
 * @param tokenIds the new ids
 * @param logprobs one entry per new id, or null if not asked for
 * @param generationLogits [new ids, vocabSize], or null if not asked for
 * @param contextLogits in the request's first delta, the result's own view: closing either closes
 *     both; null if not asked for
 * @param promptLogprobs in the request's first delta, as in the result; null if not asked for
 * @param finishReason null until the output's last delta
 */
public record GenerationDelta(
    int index,
    String text,
    List<Integer> tokenIds,
    List<TokenLogprobs> logprobs,
    LogitsView generationLogits,
    LogitsView contextLogits,
    List<TokenLogprobs> promptLogprobs,
    FinishReason finishReason) {

  public GenerationDelta {
    tokenIds = List.copyOf(tokenIds);
    logprobs = logprobs == null ? null : List.copyOf(logprobs);
    promptLogprobs = promptLogprobs == null ? null : Collections.unmodifiableList(promptLogprobs);
  }
}
