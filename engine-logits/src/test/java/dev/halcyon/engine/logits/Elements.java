package dev.halcyon.engine.logits;

import java.nio.ByteBuffer;

/** The elements of device memory as bits, by plain arithmetic. */
final class Elements {

  private Elements() {}

  static void put(ByteBuffer to, int at, LogitsType type, float value) {
    switch (type) {
      case F32 -> to.putFloat(at, value);
      case F16 -> to.putShort(at, (short) toF16(value));
      case BF16 -> to.putShort(at, (short) toBf16(value));
    }
  }

  static float get(ByteBuffer from, int at, LogitsType type) {
    return switch (type) {
      case F32 -> from.getFloat(at);
      case F16 -> fromF16(from.getShort(at) & 0xFFFF);
      case BF16 -> Float.intBitsToFloat(from.getShort(at) << 16);
    };
  }

  /** What is left of a value once it was stored as an element. */
  static float round(float value, LogitsType type) {
    ByteBuffer element = ByteBuffer.allocate(Float.BYTES);
    put(element, 0, type, value);
    return get(element, 0, type);
  }

  private static int toF16(float value) {
    int sign = value < 0 || 1 / value < 0 ? 0x8000 : 0;
    if (Float.isNaN(value)) {
      return 0x7E00;
    }
    double magnitude = Math.abs((double) value);
    if (magnitude >= 65520) {
      return sign | 0x7C00;
    }
    int exponent = Math.max(-14, Math.getExponent(magnitude));
    int steps = (int) Math.rint(magnitude / Math.scalb(1.0, exponent - 10));
    return sign | (((exponent + 14) << 10) + steps);
  }

  private static float fromF16(int bits) {
    int exponent = (bits >> 10) & 0x1F;
    int fraction = bits & 0x3FF;
    double magnitude;
    if (exponent == 0x1F) {
      magnitude = fraction == 0 ? Double.POSITIVE_INFINITY : Double.NaN;
    } else if (exponent == 0) {
      magnitude = fraction * 0x1p-24;
    } else {
      magnitude = (1 + fraction / 1024.0) * Math.scalb(1.0, exponent - 15);
    }
    return (float) ((bits & 0x8000) == 0 ? magnitude : -magnitude);
  }

  private static int toBf16(float value) {
    int bits = Float.floatToRawIntBits(value);
    if (Float.isNaN(value)) {
      return 0x7FC0;
    }
    return (bits + 0x7FFF + ((bits >>> 16) & 1)) >>> 16;
  }
}
