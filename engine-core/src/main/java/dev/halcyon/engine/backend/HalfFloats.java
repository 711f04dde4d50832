package dev.halcyon.engine.backend;

/** Sixteen-bit floats to float32, exactly, subnormals, infinities and NaN included. */
public final class HalfFloats {

  /** The power by which a half's bits, moved to a float's mantissa and exponent, are too small. */
  public static final float F16_SCALE = 0x1p112f;

  /** A half's largest exponent (infinities and NaN) in the place of a float's. */
  public static final int F16_SPECIAL = 31 << 23;

  /** The same of a float. */
  public static final int F32_SPECIAL = 0x7f800000;

  private HalfFloats() {}

  /**
   * A number of either type.
   *
   * @param type F16 or BF16
   */
  public static float widen(DType type, short bits) {
    return type == DType.BF16 ? bf16(bits) : f16(bits);
  }

  /** A bfloat16. */
  public static float bf16(short bits) {
    return Float.intBitsToFloat(bits << 16);
  }

  /** A float16. */
  public static float f16(short bits) {
    int magnitude = (bits & 0x7fff) << 13;
    // Multiplying corrects the exponent's bias, and makes normal numbers of subnormal ones on the
    // way.
    int value = Float.floatToRawIntBits(Float.intBitsToFloat(magnitude) * F16_SCALE);
    if (magnitude >= F16_SPECIAL) {
      value |= F32_SPECIAL;
    }
    return Float.intBitsToFloat(value | (bits & 0x8000) << 16);
  }
}
