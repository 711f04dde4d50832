package dev.halcyon.engine.model;

/** How rows are normalised. */
public enum NormKind {
  /** By the root of the mean of their squares. */
  RMS,
  /** By their mean and standard deviation; weights, but no bias. */
  LAYER
}
