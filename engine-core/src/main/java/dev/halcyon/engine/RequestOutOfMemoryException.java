package dev.halcyon.engine;

/** Memory for a request ran out while it ran; other requests are not affected. */
public final class RequestOutOfMemoryException extends EngineException {

  public RequestOutOfMemoryException(String message) {
    super(message);
  }

  public RequestOutOfMemoryException(String message, Throwable cause) {
    super(message, cause);
  }
}
