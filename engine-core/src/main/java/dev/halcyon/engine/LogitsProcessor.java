package dev.halcyon.engine;

import java.util.List;

/**
 * Changes a request's logits before a token is drawn from them. Called once per generated token,
 * from engine threads, never for two tokens of the same sample at once. Whatever it throws fails
 * its own request alone.
 */
@FunctionalInterface
public interface LogitsProcessor {

  /**
   * @param promptIds the prompt's token ids
   * @param generatedIds the sample's tokens so far
   * @param logits [vocabSize] a copy that may be changed in place
   * @return [vocabSize] the logits to sample from, {@code logits} or another array; a token is
   *     ruled out by negative infinity
   */
  float[] process(List<Integer> promptIds, List<Integer> generatedIds, float[] logits);
}
