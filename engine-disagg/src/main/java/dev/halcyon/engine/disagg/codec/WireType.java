package dev.halcyon.engine.disagg.codec;

import dev.halcyon.engine.backend.HalfFloats;
import java.nio.ByteBuffer;

/** The element type of logits on the wire, little-endian. */
public enum WireType {
  FLOAT32("float32", 4),
  FLOAT16("float16", 2),
  BFLOAT16("bfloat16", 2);

  private final String wireName;
  private final int bytes;

  WireType(String wireName, int bytes) {
    this.wireName = wireName;
    this.bytes = bytes;
  }

  /** The name on the wire, such as "bfloat16". */
  public String wireName() {
    return wireName;
  }

  /** The size of one element in bytes. */
  public int bytes() {
    return bytes;
  }

  /** The type of a name, or null if there is none. */
  public static WireType named(String name) {
    for (WireType type : values()) {
      if (type.wireName.equals(name)) {
        return type;
      }
    }
    return null;
  }

  /**
   * An element as float32, exactly.
   *
   * @param data little-endian
   * @param index of the element
   */
  float read(ByteBuffer data, int index) {
    return switch (this) {
      case FLOAT32 -> data.getFloat(index * 4);
      case BFLOAT16 -> HalfFloats.bf16(data.getShort(index * 2));
      case FLOAT16 -> HalfFloats.f16(data.getShort(index * 2));
    };
  }

  /**
   * Adds a float32 as the nearest element, of two as near the even one; exact for FLOAT32.
   *
   * @param data little-endian
   */
  void write(float value, ByteBuffer data) {
    int bits = Float.floatToRawIntBits(value);
    switch (this) {
      case FLOAT32 -> data.putInt(bits);
      case BFLOAT16 -> data.putShort(bf16(bits));
      case FLOAT16 -> data.putShort(f16(bits));
    }
  }

  private static short bf16(int bits) {
    if ((bits & 0x7fffffff) > 0x7f800000) {
      return (short) (bits >>> 16 | 0x40); // NaN stays NaN
    }
    return (short) (bits + 0x7fff + (bits >>> 16 & 1) >>> 16);
  }

  private static short f16(int bits) {
    int sign = bits >>> 16 & 0x8000;
    int magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) {
      return (short) (sign | 0x7e00 | magnitude >>> 13 & 0x1ff);
    } else if (magnitude >= 0x477ff000) { // 65520 and above: nearer to infinity
      return (short) (sign | 0x7c00);
    } else if (magnitude < 0x38800000) { // below 2^-14: multiples of 2^-24
      return (short) (sign | (int) Math.rint(Float.intBitsToFloat(magnitude) * 0x1p24f));
    }
    int rounded = magnitude + 0xfff + (magnitude >>> 13 & 1);
    return (short) (sign | rounded - 0x38000000 >>> 13);
  }
}
