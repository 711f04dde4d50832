package dev.halcyon.engine.backend;

/** Which elements of a head rotate together. */
public enum RopeLayout {
  /** Element i and i + rotaryDim / 2 ("rotate half"). */
  HALVES,
  /** Element 2i and 2i + 1 (the layout of GPT-J). */
  INTERLEAVED
}
