package dev.halcyon.engine;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * What a request gave. Outlives the engine, but for logits that lie on its device; closing it
 * closes its logits views.
 *
 * @param requestId the engine's number for the request
 * @param promptIds the prompt's ids as they were computed, after truncation
 * @param outputs n outputs by index
 * @param contextLogits [promptIds, vocabSize], row i predicts token i + 1; null if not asked for,
 *     or if the request was cancelled, or timed out before its prompt was computed
 * @param promptLogprobs one entry per prompt id: entry i scores token i + 1 of the prompt, the last
 *     one the first generated token (of the first output); null if not asked for, or if the prompt
 *     was not computed. Entries are made when they are read
 * @param usage tokens used
 * @param timing how long it took
 * @param disaggParams of a context-only request whose outputs are not all ended: what the decode
 *     engine goes on with, sharing this result's logits; null otherwise
 */
public record GenerationResult(
    long requestId,
    List<Integer> promptIds,
    List<GenerationOutput> outputs,
    LogitsView contextLogits,
    List<TokenLogprobs> promptLogprobs,
    Usage usage,
    RequestTiming timing,
    DisaggParams disaggParams)
    implements AutoCloseable {

  public GenerationResult {
    promptIds = List.copyOf(promptIds);
    outputs = List.copyOf(outputs);
    promptLogprobs = promptLogprobs == null ? null : Collections.unmodifiableList(promptLogprobs);
  }

  /** The text of the first output. */
  public String text() {
    return outputs.get(0).text();
  }

  /**
   * The prompt's logprobs in the form in which entry i scores token i of the prompt: the first
   * entry is null, as nothing predicts the first token, and the first generated token is left out.
   *
   * @return one entry per prompt id, or null if {@link #promptLogprobs} is
   */
  public List<TokenLogprobs> promptLogprobsWithLeadingNull() {
    if (promptLogprobs == null) {
      return null;
    }
    List<TokenLogprobs> shifted = new ArrayList<>(promptLogprobs.size());
    shifted.add(null);
    shifted.addAll(promptLogprobs.subList(0, promptLogprobs.size() - 1));
    return Collections.unmodifiableList(shifted);
  }

  /** Frees the logits that the result holds. Harmless when there are none, or when done twice. */
  @Override
  public void close() {
    if (contextLogits != null) {
      contextLogits.close();
    }
    for (GenerationOutput output : outputs) {
      if (output.generationLogits() != null) {
        output.generationLogits().close();
      }
    }
  }
}
