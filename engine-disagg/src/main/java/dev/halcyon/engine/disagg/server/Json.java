package dev.halcyon.engine.disagg.server;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.core.util.ByteArrayBuilder;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;

/** JSON as the service reads it (strictly: no duplicate keys, little nesting) and writes it. */
public final class Json {

  private static final int MAX_NESTING = 64;
  private static final int MAX_NUMBER_LENGTH = 100;
  private static final int MAX_NAME_LENGTH = 1000;
  private static final ObjectMapper MAPPER =
      JsonMapper.builder(
              JsonFactory.builder()
                  .streamReadConstraints(
                      StreamReadConstraints.builder()
                          .maxNestingDepth(MAX_NESTING)
                          .maxNumberLength(MAX_NUMBER_LENGTH)
                          .maxNameLength(MAX_NAME_LENGTH)
                          .maxStringLength(Integer.MAX_VALUE) // the body is bounded as a whole
                          .build())
                  .build())
          .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          .build();

  private Json() {}

  public static ObjectNode object() {
    return JsonNodeFactory.instance.objectNode();
  }

  public static ArrayNode array() {
    return JsonNodeFactory.instance.arrayNode();
  }

  /**
   * Reads a body that has to be an object.
   *
   * @throws ApiException if it is not
   */
  public static ObjectNode parseObject(byte[] body) {
    JsonNode node;
    try {
      node = MAPPER.readTree(body);
    } catch (JsonProcessingException e) {
      throw ApiException.invalid(null, "The body is not valid JSON: " + e.getOriginalMessage());
    } catch (IOException e) {
      throw ApiException.invalid(null, "The body is not valid JSON: " + e.getMessage());
    }
    if (node instanceof ObjectNode object) {
      return object;
    }
    throw ApiException.invalid(
        null, "The body must be a JSON object, is " + (body.length == 0 ? "empty" : kind(node)));
  }

  /**
   * UTF-8; a surrogate without its partner becomes a question mark. Takes twice the result's memory
   * meanwhile.
   */
  public static byte[] bytes(JsonNode node) {
    try (ByteArrayBuilder out = new ByteArrayBuilder()) {
      // By way of characters: written as bytes at once, such a surrogate would be an error.
      try (Writer characters = new OutputStreamWriter(out, StandardCharsets.UTF_8)) {
        MAPPER.writeValue(characters, node);
      }
      return out.toByteArray();
    } catch (IOException e) {
      throw new IllegalStateException("a tree of plain values can't be written", e);
    }
  }

  public static String kind(JsonNode node) {
    if (node == null || node.isMissingNode()) {
      return "missing";
    }
    return switch (node.getNodeType()) {
      case ARRAY -> "an array";
      case OBJECT -> "an object";
      case STRING -> "a string";
      case BOOLEAN -> "a boolean";
      case NUMBER -> node.isIntegralNumber() ? "an integer" : "a number";
      case NULL -> "null";
      default -> "something else";
    };
  }
}
