package dev.halcyon.engine.tokenizer;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * The bytes behind the names of tokens that stand for bytes: {@code <0xE2>} of byte-fallback
 * vocabularies, and GPT-2's alphabet, in which a printable character of Latin-1 stands for its own
 * byte, and the characters from U+0100 on for the others, in their order.
 */
final class TokenBytes {

  private static final int FIRST_STAND_IN = 0x100;
  private static final int[] BYTE_OF = byteOf();

  private TokenBytes() {}

  /**
   * The bytes that a token of this name may stand for, if they are no whole characters, or null.
   */
  static byte[] incomplete(String name) {
    byte[] bytes = fallbackByte(name);
    if (bytes == null) {
      bytes = spelled(name);
    }
    return bytes == null || isText(bytes) ? null : bytes;
  }

  private static byte[] fallbackByte(String name) {
    if (name.length() != 6 || !name.startsWith("<0x") || name.charAt(5) != '>') {
      return null;
    }
    int high = Character.digit(name.charAt(3), 16);
    int low = Character.digit(name.charAt(4), 16);
    return high < 0 || low < 0 ? null : new byte[] {(byte) (high << 4 | low)};
  }

  private static byte[] spelled(String name) {
    byte[] bytes = new byte[name.length()];
    for (int i = 0; i < bytes.length; i++) {
      char c = name.charAt(i);
      int value = c < BYTE_OF.length ? BYTE_OF[c] : -1;
      if (value < 0) {
        return null;
      }
      bytes[i] = (byte) value;
    }
    return bytes;
  }

  private static boolean isText(byte[] bytes) {
    try {
      StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes));
      return true;
    } catch (CharacterCodingException e) {
      return false;
    }
  }

  /** By character: the byte that it stands for, or -1. */
  private static int[] byteOf() {
    int[] byteOf = new int[2 * FIRST_STAND_IN];
    Arrays.fill(byteOf, -1);
    int standIn = FIRST_STAND_IN;
    for (int value = 0; value < FIRST_STAND_IN; value++) {
      boolean printable =
          value >= '!' && value <= '~' || value >= 0xA1 && value <= 0xAC || value >= 0xAE;
      byteOf[printable ? value : standIn++] = value;
    }
    return byteOf;
  }
}
