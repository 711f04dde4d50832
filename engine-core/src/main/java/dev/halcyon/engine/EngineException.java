package dev.halcyon.engine;

/** The root of the engine's own errors. */
public class EngineException extends RuntimeException {

  public EngineException(String message) {
    super(message);
  }

  public EngineException(String message, Throwable cause) {
    super(message, cause);
  }
}
