package dev.halcyon.engine.sampling;

/**
 * A sequence's tokens: the prompt, then what was generated. Read by the sampler, grown by the
 * executor.
 */
public interface TokenHistory {

  /** The number of tokens. */
  int size();

  /** How many of them are the prompt. */
  int promptLength();

  int token(int index);
}
