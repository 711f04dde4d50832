package dev.halcyon.engine.disagg.codec;

import java.nio.ByteBuffer;

/** The element type of logits on the wire, little-endian. */
public enum WireType {
  FLOAT32("float32", 4),
  FLOAT16("float16", 2),
  BFLOAT16("bfloat16", 2);

  /** The power by which a half's bits, moved to a float's exponent and fraction, are too small. */
  private static final float HALF_SCALE = 0x1p112f;

  private static final int HALF_SPECIAL = 31 << 23;
  private static final int FLOAT_SPECIAL = 0x7f800000;

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
  static WireType named(String name) {
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
      case BFLOAT16 -> Float.intBitsToFloat(data.getShort(index * 2) << 16);
      case FLOAT16 -> half(data.getShort(index * 2));
    };
  }

  private static float half(short bits) {
    int magnitude = (bits & 0x7fff) << 13;
    // Multiplying corrects the exponent's bias, and makes normal numbers of subnormal ones.
    int value = Float.floatToRawIntBits(Float.intBitsToFloat(magnitude) * HALF_SCALE);
    if (magnitude >= HALF_SPECIAL) {
      value |= FLOAT_SPECIAL;
    }
    return Float.intBitsToFloat(value | (bits & 0x8000) << 16);
  }
}
