package dev.halcyon.engine.logits;

/**
 * Device memory ran out. The allocation that failed holds nothing; smaller ones may still succeed.
 */
public final class OutOfDeviceMemoryException extends RuntimeException {

  private final long requestedBytes;

  public OutOfDeviceMemoryException(String purpose, long requestedBytes, long available) {
    super(
        "Out of device memory: asked for "
            + requestedBytes
            + " bytes for "
            + purpose
            + ", "
            + available
            + " bytes are left");
    this.requestedBytes = requestedBytes;
  }

  /** The bytes asked for. */
  public long requestedBytes() {
    return requestedBytes;
  }
}
