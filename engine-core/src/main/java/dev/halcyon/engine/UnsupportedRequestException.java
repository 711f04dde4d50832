package dev.halcyon.engine;

/** A request asks for something that this engine can't do. */
public final class UnsupportedRequestException extends EngineException {

  public UnsupportedRequestException(String message) {
    super(message);
  }
}
