package dev.halcyon.engine;

import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import dev.halcyon.engine.logits.OutOfHostMemoryException;

/** Memory for a request ran out while it ran; other requests are not affected. */
public final class RequestOutOfMemoryException extends EngineException {

  private final long requestedBytes;

  /**
   * @param cause what memory said; it knows how much was asked for
   */
  public RequestOutOfMemoryException(String message, Throwable cause) {
    super(message, cause);
    if (cause instanceof OutOfDeviceMemoryException device) {
      requestedBytes = device.requestedBytes();
    } else if (cause instanceof OutOfHostMemoryException host) {
      requestedBytes = host.requestedBytes();
    } else {
      requestedBytes = 0;
    }
  }

  /** The bytes that were asked for and not there; 0 if that is not known, as of the Java heap. */
  public long requestedBytes() {
    return requestedBytes;
  }
}
