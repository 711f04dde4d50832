package dev.halcyon.engine;

/** Which part of a request an engine does. */
public enum DisaggRequestType {
  /** The prompt and the first token of each output; another engine goes on from there. */
  CONTEXT_ONLY,
  /** All but that: the prompt's keys and values come from the engine that computed them. */
  GENERATION_ONLY,
  /** All of it, as without any disaggregation parameters. */
  CONTEXT_AND_GENERATION
}
