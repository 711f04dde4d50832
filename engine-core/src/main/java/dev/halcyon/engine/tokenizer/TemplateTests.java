package dev.halcyon.engine.tokenizer;

import dev.halcyon.engine.tokenizer.PythonValues.None;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/** Jinja's tests: {@code value is name}. */
final class TemplateTests {

  static final Set<String> NAMES =
      Set.of(
          "defined",
          "undefined",
          "none",
          "string",
          "mapping",
          "iterable",
          "sequence",
          "number",
          "integer",
          "float",
          "boolean",
          "true",
          "false",
          "callable",
          "eq",
          "equalto",
          "ne",
          "lt",
          "lessthan",
          "gt",
          "greaterthan",
          "le",
          "ge",
          "in",
          "odd",
          "even",
          "divisibleby",
          "sameas",
          "lower",
          "upper");

  private TemplateTests() {}

  static boolean apply(String name, Object value, Arguments arguments) {
    Object other = arguments.get(0, "other", null);
    return switch (name) {
      case "defined" -> value != null;
      case "undefined" -> value == null;
      case "none" -> value == None.NONE;
      case "string" -> value instanceof String;
      case "mapping" -> value instanceof Map;
      case "iterable", "sequence" ->
          value instanceof String || value instanceof Collection || value instanceof Map;
      case "number" -> PythonValues.isNumber(value);
      case "integer" -> value instanceof Long;
      case "float" -> value instanceof Double;
      case "boolean" -> value instanceof Boolean;
      case "true" -> Boolean.TRUE.equals(value);
      case "false" -> Boolean.FALSE.equals(value);
      case "callable" -> false;
      case "eq", "equalto" -> PythonValues.equal(value, other);
      case "ne" -> !PythonValues.equal(value, other);
      case "lt", "lessthan" -> PythonValues.compare(value, other) < 0;
      case "gt", "greaterthan" -> PythonValues.compare(value, other) > 0;
      case "le" -> PythonValues.compare(value, other) <= 0;
      case "ge" -> PythonValues.compare(value, other) >= 0;
      case "in" -> PythonValues.contains(other, value);
      case "odd" -> Math.floorMod(PythonValues.asLong(value), 2) == 1;
      case "even" -> Math.floorMod(PythonValues.asLong(value), 2) == 0;
      case "divisibleby" -> PythonValues.equal(PythonValues.arithmetic('%', value, other), 0L);
      case "sameas" -> sameAs(value, other);
      case "lower" -> value instanceof String text && text.equals(text.toLowerCase(Locale.ROOT));
      case "upper" -> value instanceof String text && text.equals(text.toUpperCase(Locale.ROOT));
      default -> throw new TemplateFailure("there is no test '" + name + "'");
    };
  }

  private static boolean sameAs(Object value, Object other) {
    boolean compound = value instanceof List || value instanceof Map;
    return compound ? value == other : value == null ? other == null : value.equals(other);
  }
}
