package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.DType;

/** Half-precision numbers as float32, which all of them are exact in. */
final class HalfFloats {

  private HalfFloats() {}

  /**
   * @param type F16 or BF16
   */
  static float widen(DType type, short bits) {
    return type == DType.BF16 ? Float.intBitsToFloat(bits << 16) : f16(bits);
  }

  private static float f16(short bits) {
    int sign = (bits & 0x8000) << 16;
    int exponent = bits >>> 10 & 31;
    int fraction = bits & 1023;
    if (exponent == 31) {
      return Float.intBitsToFloat(sign | 0x7f800000 | fraction << 13);
    }
    if (exponent == 0) {
      // A subnormal number is a whole multiple of 2^-24.
      float magnitude = fraction * 0x1p-24f;
      return sign == 0 ? magnitude : -magnitude;
    }
    return Float.intBitsToFloat(sign | exponent + 112 << 23 | fraction << 13);
  }
}
