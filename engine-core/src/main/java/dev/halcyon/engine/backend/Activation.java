package dev.halcyon.engine.backend;

/** The nonlinearity of a gated feed-forward layer. */
public enum Activation {
  /** x * sigmoid(x). */
  SILU,
  /** x * Phi(x), with the exact normal distribution function. */
  GELU,
  /** x * Phi(x) in its tanh form. */
  GELU_TANH
}
