package dev.halcyon.engine.logits;

/** Host memory ran out. The allocation that failed holds nothing; smaller ones may succeed. */
public final class OutOfHostMemoryException extends RuntimeException {

  private final long requestedBytes;

  public OutOfHostMemoryException(String purpose, long requestedBytes, long available) {
    super(
        "Out of host memory: asked for "
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
