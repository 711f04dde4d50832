package dev.halcyon.engine.disagg;

import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineMetrics;

/** Whether an engine has anything left of any request. */
public final class Idleness {

  private Idleness() {}

  /** Whether no prompt is kept or received, no sequence is there, and every block is free. */
  public static boolean isIdle(Engine engine) {
    EngineMetrics metrics = engine.metrics();
    return metrics.pinnedPrompts() == 0
        && metrics.receivingPrompts() == 0
        && metrics.runningSequences() == 0
        && metrics.waitingSequences() == 0
        && metrics.freeBlocks() == metrics.totalBlocks();
  }
}
