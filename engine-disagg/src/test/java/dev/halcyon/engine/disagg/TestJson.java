package dev.halcyon.engine.disagg;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

/** JSON as any client reads and writes it, by none of what the servers have for that. */
public final class TestJson {

  private static final ObjectMapper MAPPER = new ObjectMapper();

  private TestJson() {}

  /** What a text says; fails with the text if that is not JSON. */
  public static JsonNode json(String text) {
    try {
      return MAPPER.readTree(text);
    } catch (JsonProcessingException e) {
      throw new AssertionError(text, e);
    }
  }

  /** A value of Java's as JSON has it. */
  static JsonNode of(Object value) {
    return MAPPER.valueToTree(value);
  }
}
