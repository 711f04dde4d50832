package dev.halcyon.engine.backend;

/** An element type of weights, activations or the KV cache. */
public enum DType {
  F32(4),
  F16(2),
  BF16(2);

  private final int bytes;

  DType(int bytes) {
    this.bytes = bytes;
  }

  /** The size of one element in bytes. */
  public int bytes() {
    return bytes;
  }
}
