package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.disagg.http.TokenTexts.Token;

/** Where tokens begin in a text, in characters (code points): of a part, where its character is. */
final class TextOffsets {

  private int characters;

  /**
   * The place of the token that comes next.
   *
   * @param silentOnesShow whether the text has special tokens
   */
  int next(Token token, boolean silentOnesShow) {
    byte[] bytes = token.bytes();
    boolean continues = bytes.length > 0 && isContinuation(bytes[0]) && characters > 0;
    int place = continues ? characters - 1 : characters;
    if (!token.silent() || silentOnesShow) {
      for (byte each : bytes) {
        characters += isContinuation(each) ? 0 : 1;
      }
    }
    return place;
  }

  private static boolean isContinuation(byte value) {
    return (value & 0xC0) == 0x80;
  }
}
