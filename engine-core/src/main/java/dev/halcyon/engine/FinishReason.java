package dev.halcyon.engine;

/** Why an output ended. */
public enum FinishReason {
  /** A stop string, a stop id or an end id came. */
  STOP,
  /** maxTokens tokens were generated, or the sequence reached the engine's longest length. */
  LENGTH,
  /** The request was cancelled; the output is what was generated so far. */
  CANCELLED,
  /** The request's timeout passed; the output is what was generated so far. */
  TIMEOUT,
  /**
   * The request failed. Its result and its deltas end with the exception; the value stands in
   * metrics only.
   */
  ERROR,
  /** A context-only request computed its prompt; generation goes on elsewhere. */
  NOT_FINISHED
}
