package dev.halcyon.engine;

/** The engine broke and runs nothing any more; open a new one. */
public final class EngineFailedException extends EngineException {

  public EngineFailedException(String message) {
    super(message);
  }

  public EngineFailedException(String message, Throwable cause) {
    super(message, cause);
  }
}
