package dev.halcyon.engine;

/** When a request is let in, seen from the KV cache. */
public enum CapacityPolicy {
  /**
   * A request starts once blocks are set aside for all that it may generate; it is never paused.
   */
  GUARANTEED_NO_EVICT,
  /**
   * A request starts once its prompt fits. When blocks run out the newest sequence is paused and
   * computed again later; its output is the same.
   */
  MAX_UTILIZATION
}
