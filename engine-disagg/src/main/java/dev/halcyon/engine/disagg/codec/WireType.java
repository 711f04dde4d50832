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
      case BFLOAT16 -> HalfFloats.bf16(data.getShort(index * 2));
      case FLOAT16 -> HalfFloats.f16(data.getShort(index * 2));
    };
  }
}
