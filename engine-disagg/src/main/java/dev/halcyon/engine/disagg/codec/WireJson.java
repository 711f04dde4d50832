package dev.halcyon.engine.disagg.codec;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Locale;
import java.util.Set;
import java.util.TreeSet;

/** Strict JSON of bounded size: no duplicate keys, nothing behind the value, little nesting. */
final class WireJson {

  private static final int MAX_NESTING = 32;

  private final ObjectMapper mapper;
  private final long maxBytes;

  /**
   * @param maxBytes of a text
   */
  WireJson(long maxBytes) {
    this.maxBytes = maxBytes;
    StreamReadConstraints bounds =
        StreamReadConstraints.builder()
            .maxNestingDepth(MAX_NESTING)
            .maxStringLength((int) Math.min(Integer.MAX_VALUE, maxBytes))
            .maxDocumentLength(maxBytes)
            .build();
    this.mapper =
        JsonMapper.builder(JsonFactory.builder().streamReadConstraints(bounds).build())
            .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .build();
  }

  JsonNode parse(byte[] json, String field) {
    if (json.length > maxBytes) {
      throw new WireFormatException(
          field, "has " + json.length + " bytes, more than the " + maxBytes + " allowed");
    }
    try {
      JsonNode node = mapper.readTree(json);
      if (node == null || node.isMissingNode()) {
        throw new WireFormatException(field, "is empty, expected JSON");
      }
      return node;
    } catch (JsonProcessingException e) {
      throw new WireFormatException(field, "is not valid JSON: " + e.getOriginalMessage());
    } catch (IOException e) {
      throw new WireFormatException(field, "is not valid JSON: " + e.getMessage());
    }
  }

  byte[] write(JsonNode node) {
    try {
      return mapper.writeValueAsBytes(node);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException("a tree of plain values can't be written", e);
    }
  }

  static ObjectNode object() {
    return JsonNodeFactory.instance.objectNode();
  }

  /** Requires an object with known keys. */
  static ObjectNode requireObject(JsonNode node, String field, Set<String> keys) {
    if (!(node instanceof ObjectNode object)) {
      throw new WireFormatException(field, "must be a JSON object, is " + kind(node));
    }
    for (Iterator<String> names = object.fieldNames(); names.hasNext(); ) {
      String name = names.next();
      if (!keys.contains(name)) {
        throw new WireFormatException(
            field + "." + printable(name), "is not a known field; known are " + sorted(keys));
      }
    }
    return object;
  }

  /** Requires an integer of a range. */
  static int integer(JsonNode node, String field, int min, int max) {
    if (node == null || !node.isIntegralNumber() || !node.canConvertToInt()) {
      throw new WireFormatException(field, "must be a 32-bit integer, is " + kind(node));
    }
    int value = node.intValue();
    if (value < min || value > max) {
      throw new WireFormatException(field, "must be " + min + " to " + max + ", is " + value);
    }
    return value;
  }

  /** Requires the id of a token. */
  static int tokenId(JsonNode node, String field, int vocabSize) {
    int last = vocabSize == LogitsCodec.ANY_VOCABULARY ? Integer.MAX_VALUE : vocabSize - 1;
    return integer(node, field, 0, last);
  }

  /** Requires a string of bounded length. */
  static String text(JsonNode node, String field, int maxLength) {
    if (node == null || !node.isTextual()) {
      throw new WireFormatException(field, "must be a string, is " + kind(node));
    }
    String text = node.textValue();
    if (text.length() > maxLength) {
      throw new WireFormatException(
          field, "has " + text.length() + " characters, more than the " + maxLength + " allowed");
    }
    return text;
  }

  /** Requires the lower-case name of one of some values. */
  static <E extends Enum<E>> E choice(JsonNode node, String field, E[] values) {
    String text = text(node, field, 64);
    for (E value : values) {
      if (lower(value).equals(text)) {
        return value;
      }
    }
    throw new WireFormatException(
        field,
        "must be one of "
            + Arrays.stream(values).map(WireJson::lower).toList()
            + ", is \""
            + printable(text)
            + "\"");
  }

  static String lower(Enum<?> value) {
    return value.name().toLowerCase(Locale.ROOT);
  }

  static String kind(JsonNode node) {
    return node == null ? "missing" : node.getNodeType().name().toLowerCase(Locale.ROOT);
  }

  /** A short form of a text from outside that is safe in a message. */
  static String printable(String text) {
    String shown = text.length() > 40 ? text.substring(0, 40) + "..." : text;
    return shown.replaceAll("[^\\x20-\\x7e]", "?");
  }

  private static Iterable<String> sorted(Set<String> keys) {
    return new TreeSet<>(keys);
  }
}
