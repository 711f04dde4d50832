package dev.halcyon.engine;

/** As many requests wait as may; try again later, or let submit wait. */
public final class QueueFullException extends EngineException {

  public QueueFullException(String message) {
    super(message);
  }
}
