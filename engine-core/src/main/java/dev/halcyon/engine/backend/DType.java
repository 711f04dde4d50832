package dev.halcyon.engine.backend;

/** An element type of weights, activations or the KV cache. */
public enum DType {
  F32(4, 23, -126),
  F16(2, 10, -14),
  BF16(2, 7, -126);

  private final int bytes;
  private final int fractionBits;
  private final int minExponent;

  DType(int bytes, int fractionBits, int minExponent) {
    this.bytes = bytes;
    this.fractionBits = fractionBits;
    this.minExponent = minExponent;
  }

  /** The size of one element in bytes. */
  public int bytes() {
    return bytes;
  }

  /**
   * The nearest number of this type, the even one of two.
   *
   * @param value finite, within the type's range
   */
  public float round(float value) {
    int exponent = Math.max(Math.getExponent(value), minExponent);
    double step = Math.scalb(1.0, exponent - fractionBits);
    return (float) (Math.rint(value / step) * step);
  }
}
