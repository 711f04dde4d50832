package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.node.ArrayNode;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.disagg.server.Json;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicReferenceArray;

/** Single tokens as texts and bytes, remembered. Safe for use by several threads. */
final class TokenTexts {

  /**
   * @param bytes what the token adds to a text, as UTF-8; a special token's name
   * @param text the same, with U+FFFD for parts of characters
   * @param escaped the same, with "bytes:" and escapes for parts of characters
   * @param silent whether decoding leaves it out
   */
  record Token(byte[] bytes, String text, String escaped, boolean silent) {

    ArrayNode jsonBytes() {
      ArrayNode array = Json.array();
      for (byte each : bytes) {
        array.add(each & 0xFF);
      }
      return array;
    }
  }

  private final Engine engine;
  private final AtomicReferenceArray<Token> known;

  TokenTexts(Engine engine) {
    this.engine = engine;
    this.known = new AtomicReferenceArray<>(engine.vocabSize());
  }

  Token of(int id) {
    Token token = known.get(id);
    if (token == null) {
      token = read(id);
      known.set(id, token);
    }
    return token;
  }

  private Token read(int id) {
    byte[] bytes = engine.tokenBytes(id);
    String text = new String(bytes, StandardCharsets.UTF_8);
    boolean whole = isText(bytes);
    boolean silent = whole && engine.detokenize(new int[] {id}).isEmpty() && !text.isBlank();
    return new Token(bytes, text, whole ? text : escaped(bytes), silent);
  }

  private static boolean isText(byte[] bytes) {
    try {
      StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes));
      return true;
    } catch (CharacterCodingException e) {
      return false;
    }
  }

  private static String escaped(byte[] bytes) {
    StringBuilder text = new StringBuilder("bytes:");
    for (byte each : bytes) {
      text.append(String.format("\\x%02x", each & 0xFF));
    }
    return text.toString();
  }
}
