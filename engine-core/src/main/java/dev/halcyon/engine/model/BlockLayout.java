package dev.halcyon.engine.model;

/** How a decoder layer adds attention and feed-forward to the residual. */
public enum BlockLayout {
  /** Attention of the normalised residual, then feed-forward of the newly normalised one. */
  PRE_NORM,
  /** As {@link #PRE_NORM}, with what attention and feed-forward add normalised as well. */
  PRE_AND_POST_NORM,
  /** Attention and feed-forward of the same normalised residual. */
  PARALLEL
}
