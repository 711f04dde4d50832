package dev.halcyon.engine;

/** In which order the two engines of a split request hear of it. */
public enum ScheduleStyle {
  /** The prefill engine first; the decode engine once the first tokens are there. */
  CONTEXT_FIRST,
  /**
   * The decode engine first, so that it has room before the prompt is computed. For a router in
   * front of engines: an engine itself takes a generation-only request once its first tokens are
   * there.
   */
  GENERATION_FIRST
}
