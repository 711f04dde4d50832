package dev.halcyon.engine;

/** In which order the two engines of a split request hear of it. */
public enum ScheduleStyle {
  /** The prefill engine first; the decode engine once the first tokens are there. */
  CONTEXT_FIRST,
  /**
   * The decode engine too before the prompt is computed: it sets blocks aside, and fetches keys and
   * values as they are computed. A context-only request {@linkplain GenerationHandle#offer offers}
   * its prompt then, and the first tokens {@linkplain GenerationRequest#firstTokens follow}.
   */
  GENERATION_FIRST
}
