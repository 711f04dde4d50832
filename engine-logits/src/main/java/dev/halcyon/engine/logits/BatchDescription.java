package dev.halcyon.engine.logits;

/**
 * What a step does that a bounded projection can't follow.
 *
 * @param contextParallel whether one prompt's rows are spread over ranks
 * @param attentionDataParallel whether ranks compute attention for different requests
 * @param speculative whether rows stand for draft tokens that may be rejected
 * @param contextLogitsProcessor whether a caller's processor changes the logits of context rows
 */
public record BatchDescription(
    boolean contextParallel,
    boolean attentionDataParallel,
    boolean speculative,
    boolean contextLogitsProcessor) {

  /** A step with none of these. */
  public static final BatchDescription PLAIN = new BatchDescription(false, false, false, false);
}
