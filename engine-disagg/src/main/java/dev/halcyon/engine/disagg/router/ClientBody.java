package dev.halcyon.engine.disagg.router;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.Json;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.nio.charset.StandardCharsets;

/**
 * The body of a client's request: checked as far as routing depends on it, and passed on byte for
 * byte with one field more. Everything else is the endpoints' to check.
 */
final class ClientBody {

  static final String FIELD = "disaggregated_params";

  private final byte[] bytes;
  private final int end;
  private final boolean stream;
  private final long[] keys;

  private ClientBody(byte[] bytes, int end, boolean stream, long[] keys) {
    this.bytes = bytes;
    this.end = end;
    this.stream = stream;
    this.keys = keys;
  }

  /**
   * Reads a body.
   *
   * @param chat whether it is for chat completions
   * @param seed see {@link PrefixKeys}
   * @throws ApiException if it can't be routed
   */
  static ClientBody of(byte[] bytes, boolean chat, long seed) {
    ObjectNode object = Json.parseObject(bytes);
    int last = bytes.length - 1;
    while (Character.isWhitespace(bytes[last])) {
      last--;
    }
    if (bytes[last] != '}') {
      throw ApiException.invalid(null, "The body must be JSON in UTF-8");
    }
    requirePrompt(object, chat ? "messages" : "prompt", chat ? "prompt" : "messages");
    if (object.has(FIELD)) {
      throw ApiException.invalid(FIELD, "'" + FIELD + "' is for endpoints, not for a router");
    }
    boolean stream = object.path("stream").booleanValue();
    return new ClientBody(bytes, last, stream, PrefixKeys.of(object, seed));
  }

  /** An endpoint tells completions and chats apart by these. */
  private static void requirePrompt(ObjectNode object, String expected, String other) {
    if (!object.hasNonNull(expected)) {
      throw ApiException.invalid(expected, "'" + expected + "' is missing");
    }
    if (object.has(other)) {
      throw new ApiException(
          400,
          "invalid_request_error",
          "unsupported_parameter",
          other,
          "'" + other + "' is not supported here");
    }
  }

  /** Whether the client wants events. */
  boolean isStream() {
    return stream;
  }

  /** Keys of the prompt's beginnings. */
  long[] keys() {
    return keys;
  }

  /** The body with the field's value added, which is JSON. */
  ByteBuf with(ByteBuf value) {
    String name = ",\"" + FIELD + "\":"; // there is a prompt before it
    return Unpooled.wrappedBuffer(
        Unpooled.wrappedBuffer(bytes, 0, end),
        Unpooled.wrappedBuffer(name.getBytes(StandardCharsets.UTF_8)),
        value,
        Unpooled.wrappedBuffer(new byte[] {'}'}));
  }
}
