package dev.halcyon.engine.model;

/**
 * What a decoder's buffers are sized for.
 *
 * @param maxBatchTokens the most rows of a batch
 * @param maxSequenceLength the most positions of a sequence that are asked for; the model's own
 *     limit applies as well
 * @param maxLogitRows the most rows that are projected to logits at once
 */
public record DecoderOptions(int maxBatchTokens, int maxSequenceLength, int maxLogitRows) {

  public DecoderOptions {
    requirePositive("maxBatchTokens", maxBatchTokens);
    requirePositive("maxSequenceLength", maxSequenceLength);
    requirePositive("maxLogitRows", maxLogitRows);
  }

  private static void requirePositive(String name, int value) {
    if (value < 1) {
      throw new IllegalArgumentException(name + " must be at least 1, not " + value);
    }
  }
}
