package dev.halcyon.engine;

/** What closing an engine does with requests that have not ended. */
public enum CloseMode {
  /** They end at once with {@link EngineClosedException}. */
  ABORT,
  /** They run to their ends; close waits. New ones are refused. */
  DRAIN
}
