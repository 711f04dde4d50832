package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.Json;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * The fields of an object from outside, read by name and type, with {@code null} as good as left
 * out. Every error names the field. What nobody read is refused in the end, so that nothing a
 * client asks for is silently left undone.
 */
final class Fields {

  private final ObjectNode object;
  private final String path;
  private final Set<String> read = new HashSet<>();

  /**
   * @param path what stands before a field's name in errors: "", or as "messages[0]."
   */
  Fields(ObjectNode object, String path) {
    this.object = object;
    this.path = path;
  }

  /** The fields of a value that has to be an object. */
  static Fields of(JsonNode node, String name) {
    if (node instanceof ObjectNode object) {
      return new Fields(object, name + ".");
    }
    throw wrong(name, "an object", node);
  }

  /** The name of a field as errors give it. */
  String path(String name) {
    return path + name;
  }

  /** The value, or null. */
  JsonNode take(String name) {
    read.add(name);
    JsonNode node = object.get(name);
    return node == null || node.isNull() ? null : node;
  }

  String text(String name) {
    JsonNode node = take(name);
    if (node != null && !node.isTextual()) {
      throw wrong(path(name), "a string", node);
    }
    return node == null ? null : node.textValue();
  }

  boolean flag(String name) {
    JsonNode node = take(name);
    if (node != null && !node.isBoolean()) {
      throw wrong(path(name), "a boolean", node);
    }
    return node != null && node.booleanValue();
  }

  /** Null if left out. */
  Integer integer(String name, int least, int most) {
    JsonNode node = take(name);
    return node == null ? null : integer(node, path(name), least, most);
  }

  /** Null if left out. */
  Long longInteger(String name) {
    JsonNode node = take(name);
    if (node == null) {
      return null;
    }
    if (!node.isIntegralNumber() || !node.canConvertToLong()) {
      throw wrong(path(name), "a 64-bit integer", node);
    }
    return node.longValue();
  }

  /** Null if left out. */
  Double number(String name, double least, double most) {
    JsonNode node = take(name);
    return node == null ? null : number(node, path(name), least, most);
  }

  static int integer(JsonNode node, String name, int least, int most) {
    if (!node.isIntegralNumber() || !node.canConvertToInt()) {
      throw wrong(name, "an integer", node);
    }
    int value = node.intValue();
    if (value < least || value > most) {
      String range = most == Integer.MAX_VALUE ? "at least " + least : least + " to " + most;
      throw ApiException.invalid(name, "'" + name + "' must be " + range + ", is " + value);
    }
    return value;
  }

  static double number(JsonNode node, String name, double least, double most) {
    if (!node.isNumber() || !Double.isFinite(node.doubleValue())) {
      throw wrong(name, "a finite number", node);
    }
    double value = node.doubleValue();
    if (value < least || value > most) {
      throw ApiException.invalid(
          name, "'" + name + "' must be " + least + " to " + most + ", is " + value);
    }
    return value;
  }

  /** Refuses a field unless it is left out or says what happens anyway. */
  void allowOnly(String name, JsonNode harmless, String why) {
    JsonNode node = take(name);
    if (node != null && !node.equals(harmless)) {
      throw ApiException.invalid(path(name), "'" + path(name) + "' is not supported: " + why);
    }
  }

  /** Refuses every field that was not read. */
  void refuseOthers() {
    for (Map.Entry<String, JsonNode> field : object.properties()) {
      if (!read.contains(field.getKey()) && !field.getValue().isNull()) {
        String name = path(printable(field.getKey()));
        throw new ApiException(
            400,
            "invalid_request_error",
            "unsupported_parameter",
            name,
            "'" + name + "' is not supported by this server");
      }
    }
  }

  static ApiException wrong(String name, String expected, JsonNode node) {
    return ApiException.invalid(
        name, "'" + name + "' must be " + expected + ", is " + Json.kind(node));
  }

  private static String printable(String name) {
    String shown = name.length() > 60 ? name.substring(0, 60) + "..." : name;
    return shown.replaceAll("[^\\x20-\\x7e]", "?");
  }
}
