package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationDelta;
import dev.halcyon.engine.GenerationOutput;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.TokenLogprobs;
import java.util.List;

/**
 * What a choice, or an event of it, shows: a whole output of the engine or a delta of one.
 *
 * @param logprobs one entry per id, or null
 * @param logits [ids, vocabulary], or null
 * @param finishReason null where more is to come
 */
record Piece(
    String text,
    List<Integer> ids,
    List<TokenLogprobs> logprobs,
    LogitsView logits,
    FinishReason finishReason) {

  static Piece of(GenerationOutput output) {
    return new Piece(
        output.text(),
        output.tokenIds(),
        output.logprobs(),
        output.generationLogits(),
        output.finishReason());
  }

  static Piece of(GenerationDelta delta) {
    return new Piece(
        delta.text(),
        delta.tokenIds(),
        delta.logprobs(),
        delta.generationLogits(),
        delta.finishReason());
  }
}
