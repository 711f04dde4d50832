package dev.halcyon.engine;

/** Memory for a request ran out while it ran; other requests are not affected. */
public final class RequestOutOfMemoryException extends EngineException {

  private final long requestedBytes;

  public RequestOutOfMemoryException(String message, Throwable cause) {
    this(message, 0, cause);
  }

  /**
   * @param requestedBytes how much was asked for; 0 if that is not known
   */
  public RequestOutOfMemoryException(String message, long requestedBytes, Throwable cause) {
    super(message, cause);
    this.requestedBytes = requestedBytes;
  }

  /** The bytes that were asked for and not there; 0 if that is not known. */
  public long requestedBytes() {
    return requestedBytes;
  }
}
