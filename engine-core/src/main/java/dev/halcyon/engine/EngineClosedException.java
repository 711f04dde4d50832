package dev.halcyon.engine;

/** The engine is closed, or was closed while the request ran. */
public final class EngineClosedException extends EngineException {

  public EngineClosedException(String message) {
    super(message);
  }
}
