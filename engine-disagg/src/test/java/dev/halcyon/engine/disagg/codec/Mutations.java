package dev.halcyon.engine.disagg.codec;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Random;

/** Damage of the kinds that a wire, a bug or an attacker does. */
public final class Mutations {

  private static final String[] TOKENS = {
    "-1", "0", "1e400", "9223372036854775808", "2147483647", "null", "true", "[]", "{}", "\"",
    "\\u0000", ",", ":", "[[[[", "NaN", "\"float64\"", "=", "\u00e9", "]", "}"
  };

  private Mutations() {}

  public static byte[] of(byte[] sound, int edits, Random random) {
    byte[] bytes = sound;
    for (int i = 0; i < edits; i++) {
      bytes = edit(bytes, random);
    }
    return bytes;
  }

  private static byte[] edit(byte[] bytes, Random random) {
    int at = bytes.length == 0 ? 0 : random.nextInt(bytes.length);
    int to = at + (bytes.length == at ? 0 : random.nextInt(Math.min(8, bytes.length - at) + 1));
    byte[] changed = bytes.clone();
    switch (random.nextInt(6)) {
      case 0 -> {
        if (changed.length > 0) {
          changed[at] ^= (byte) (1 << random.nextInt(8));
        }
        return changed;
      }
      case 1 -> {
        if (changed.length > 0) {
          changed[at] = (byte) random.nextInt(256);
        }
        return changed;
      }
      case 2 -> {
        return splice(bytes, at, to, new byte[0]);
      }
      case 3 -> {
        return Arrays.copyOf(bytes, at);
      }
      case 4 -> {
        return splice(bytes, at, at, Arrays.copyOfRange(bytes, at, to));
      }
      default -> {
        String token = TOKENS[random.nextInt(TOKENS.length)];
        return splice(bytes, at, to, token.getBytes(StandardCharsets.UTF_8));
      }
    }
  }

  private static byte[] splice(byte[] bytes, int from, int to, byte[] with) {
    byte[] result = new byte[bytes.length - (to - from) + with.length];
    System.arraycopy(bytes, 0, result, 0, from);
    System.arraycopy(with, 0, result, from, with.length);
    System.arraycopy(bytes, to, result, from + with.length, bytes.length - to);
    return result;
  }
}
