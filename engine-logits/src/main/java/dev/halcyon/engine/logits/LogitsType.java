package dev.halcyon.engine.logits;

/** The element type of what a head puts out. */
public enum LogitsType {
  F32(4),
  F16(2),
  BF16(2);

  private final int bytes;

  LogitsType(int bytes) {
    this.bytes = bytes;
  }

  /** The size of one element in bytes. */
  public int bytes() {
    return bytes;
  }
}
