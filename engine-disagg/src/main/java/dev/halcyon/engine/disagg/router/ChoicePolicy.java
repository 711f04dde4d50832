package dev.halcyon.engine.disagg.router;

/** How a router chooses among the endpoints of a role. */
public enum ChoicePolicy {
  /** Each in its turn. */
  ROUND_ROBIN,
  /** The one with the fewest calls of this router running; of several, each in its turn. */
  LEAST_LOADED
}
