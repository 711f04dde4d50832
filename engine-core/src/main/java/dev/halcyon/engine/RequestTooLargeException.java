package dev.halcyon.engine;

/** A request that can never run: its prompt or what it may generate exceeds the engine's limits. */
public final class RequestTooLargeException extends EngineException {

  public RequestTooLargeException(String message) {
    super(message);
  }
}
