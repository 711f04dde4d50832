package dev.halcyon.engine;

/** What submit does when as many requests wait as may. */
public enum QueueFullPolicy {
  /** Throw {@link QueueFullException}. */
  FAIL,
  /** Wait for a place. */
  WAIT
}
