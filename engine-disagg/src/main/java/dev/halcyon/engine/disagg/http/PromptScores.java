package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.GenerationDelta;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.TokenLogprobs;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * What was asked of a prompt.
 *
 * @param logprobs as the engine gives them, or null
 * @param logits [prompt, vocabulary], or null
 */
record PromptScores(List<TokenLogprobs> logprobs, LogitsView logits) {

  static final PromptScores NONE = new PromptScores(null, null);

  static PromptScores of(GenerationResult result) {
    return new PromptScores(result.promptLogprobs(), result.contextLogits());
  }

  /** Those that a delta brings, as a request's first does, or these. */
  PromptScores orOf(GenerationDelta delta) {
    return delta.promptLogprobs() == null && delta.contextLogits() == null
        ? this
        : new PromptScores(delta.promptLogprobs(), delta.contextLogits());
  }

  /**
   * The logprobs with entry i scoring token i: none for the first, and without the first generated
   * token's. Null if there are none.
   */
  List<TokenLogprobs> shifted() {
    if (logprobs == null) {
      return null;
    }
    List<TokenLogprobs> shifted = new ArrayList<>(logprobs.size());
    shifted.add(null);
    shifted.addAll(logprobs.subList(0, logprobs.size() - 1));
    return Collections.unmodifiableList(shifted);
  }
}
