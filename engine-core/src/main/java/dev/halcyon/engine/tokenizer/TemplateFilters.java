package dev.halcyon.engine.tokenizer;

import dev.halcyon.engine.tokenizer.PythonValues.None;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.UnaryOperator;

/** Jinja's filters: {@code value | name(arguments)}. */
final class TemplateFilters {

  static final Set<String> NAMES =
      Set.of(
          "abs",
          "capitalize",
          "count",
          "d",
          "default",
          "dictsort",
          "e",
          "escape",
          "first",
          "float",
          "indent",
          "int",
          "items",
          "join",
          "last",
          "length",
          "list",
          "lower",
          "map",
          "max",
          "min",
          "reject",
          "rejectattr",
          "replace",
          "reverse",
          "round",
          "safe",
          "select",
          "selectattr",
          "sort",
          "string",
          "sum",
          "title",
          "tojson",
          "trim",
          "unique",
          "upper");

  private TemplateFilters() {}

  static Object apply(String name, Object value, Arguments arguments) {
    return switch (name) {
      case "default", "d" -> {
        boolean missing =
            value == null || (arguments.flag(1, "boolean", false) && !PythonValues.truth(value));
        yield missing ? arguments.get(0, "default_value", "") : value;
      }
      case "tojson" -> TemplateJson.write(value, (int) arguments.number(0, "indent", -1));
      case "length", "count" -> PythonValues.length(value);
      case "abs", "round", "int", "float" -> number(name, value, arguments);
      case "items" -> value instanceof Map<?, ?> map ? TemplateMethods.items(map) : List.of();
      case "dictsort" -> {
        List<Object> items = value instanceof Map<?, ?> map ? TemplateMethods.items(map) : null;
        yield sorted(PythonValues.items(items), item -> PythonValues.get(item, 0L), false);
      }
      case "capitalize",
          "e",
          "escape",
          "indent",
          "lower",
          "replace",
          "safe",
          "string",
          "title",
          "trim",
          "upper" ->
          ofText(name, PythonValues.str(value), arguments);
      default -> ofItems(name, value, arguments);
    };
  }

  private static Object ofText(String name, String text, Arguments arguments) {
    return switch (name) {
      case "capitalize" -> PythonText.capitalize(text);
      case "e", "escape" -> {
        PythonValues.checkSize(5.0 * text.length());
        yield text.replace("&", "&amp;")
            .replace("<", "&lt;")
            .replace(">", "&gt;")
            .replace("'", "&#39;")
            .replace("\"", "&#34;");
      }
      case "indent" -> indent(text, arguments);
      case "lower" -> text.toLowerCase(Locale.ROOT);
      case "replace" -> TemplateMethods.replace(text, arguments);
      case "title" -> PythonText.title(text);
      case "trim" -> PythonText.strip(text, arguments.text(0, "chars", null), true, true);
      case "upper" -> text.toUpperCase(Locale.ROOT);
      default -> text;
    };
  }

  private static String indent(String text, Arguments arguments) {
    Object width = arguments.get(0, "width", 4L);
    long spaces = width instanceof String ? 0 : PythonValues.asLong(width);
    PythonValues.checkSize(spaces);
    String indent = width instanceof String given ? given : " ".repeat((int) Math.max(0, spaces));
    boolean first = arguments.flag(1, "first", false);
    boolean blank = arguments.flag(2, "blank", false);
    StringBuilder result = new StringBuilder();
    String[] lines = text.split("\n", -1);
    for (int i = 0; i < lines.length; i++) {
      boolean indented = i == 0 ? first : blank || !lines[i].isEmpty();
      result.append(i == 0 ? "" : "\n").append(indented ? indent : "").append(lines[i]);
      PythonValues.checkSize(result.length());
    }
    return result.toString();
  }

  private static Object number(String name, Object value, Arguments arguments) {
    switch (name) {
      case "abs":
        boolean negative = PythonValues.asDouble(value) < 0;
        return negative ? PythonValues.arithmetic('-', 0L, value) : value;
      case "round":
        double scale = Math.pow(10, arguments.number(0, "precision", 0));
        return Math.rint(PythonValues.asDouble(value) * scale) / scale;
      default:
        boolean whole = name.equals("int");
        try {
          double number =
              value instanceof String text
                  ? Double.parseDouble(PythonText.strip(text, null, true, true))
                  : PythonValues.asDouble(value);
          return whole ? (Object) (long) number : (Object) number;
        } catch (NumberFormatException | TemplateFailure e) {
          return arguments.get(0, "default", whole ? (Object) 0L : (Object) 0.0);
        }
    }
  }

  private static Object ofItems(String name, Object value, Arguments arguments) {
    List<Object> items = PythonValues.items(value);
    return switch (name) {
      case "first" -> items.isEmpty() ? null : items.get(0);
      case "last" -> items.isEmpty() ? null : items.get(items.size() - 1);
      case "list" -> items;
      case "join" -> {
        String attribute = arguments.text(1, "attribute", null);
        items.replaceAll(item -> attribute == null ? item : attribute(item, attribute));
        yield TemplateMethods.join(arguments.text(0, "d", ""), items);
      }
      case "reverse" -> {
        Collections.reverse(items);
        yield value instanceof String ? TemplateMethods.join("", items) : items;
      }
      case "sort" -> {
        String attribute =
            arguments.named().get("attribute") instanceof String name1 ? name1 : null;
        boolean exact = arguments.flag(1, "case_sensitive", false);
        List<Object> sorted =
            sorted(items, item -> attribute == null ? item : attribute(item, attribute), exact);
        if (arguments.flag(0, "reverse", false)) {
          Collections.reverse(sorted);
        }
        yield sorted;
      }
      case "max", "min" -> {
        List<Object> sorted = sorted(items, UnaryOperator.identity(), false);
        int index = name.equals("min") ? 0 : sorted.size() - 1;
        yield sorted.isEmpty() ? null : sorted.get(index);
      }
      case "sum" -> {
        String attribute = arguments.text(0, "attribute", null);
        Object sum = arguments.get(1, "start", 0L);
        for (Object item : items) {
          sum =
              PythonValues.arithmetic(
                  '+', sum, attribute == null ? item : attribute(item, attribute));
        }
        yield sum;
      }
      case "unique" -> unique(items);
      case "map" -> map(items, arguments);
      default -> selected(name, items, arguments);
    };
  }

  private static List<Object> unique(List<Object> items) {
    Set<String> seen = new HashSet<>();
    List<Object> unique = new ArrayList<>();
    for (Object item : items) {
      String key = PythonValues.repr(item).toLowerCase(Locale.ROOT);
      TemplateState.current().charge(PythonValues.cost(key));
      if (seen.add(key)) {
        unique.add(item);
      }
    }
    return unique;
  }

  private static List<Object> map(List<Object> items, Arguments arguments) {
    Object attribute = arguments.named().get("attribute");
    Object otherwise = arguments.named().get("default");
    String filter = attribute == null ? arguments.text(0, "filter", "") : null;
    if (filter != null && !NAMES.contains(filter)) {
      throw new TemplateFailure("there is no filter '" + filter + "'");
    }
    List<Object> mapped = new ArrayList<>();
    for (Object item : items) {
      Object result =
          filter != null
              ? apply(filter, item, arguments.from(1))
              : attribute(item, PythonValues.str(attribute));
      TemplateState.current().charge(PythonValues.cost(result));
      mapped.add(result == null ? otherwise : result);
    }
    return mapped;
  }

  /** select, reject, selectattr and rejectattr: the items for which a test holds, or doesn't. */
  private static List<Object> selected(String name, List<Object> items, Arguments arguments) {
    boolean byAttribute = name.endsWith("attr");
    int position = byAttribute ? 1 : 0;
    String test = arguments.text(position, "test", null);
    if (test != null && !TemplateTests.NAMES.contains(test)) {
      throw new TemplateFailure("there is no test '" + test + "'");
    }
    List<Object> selected = new ArrayList<>();
    for (Object item : items) {
      Object value = byAttribute ? attribute(item, arguments.text(0, "attribute", "")) : item;
      boolean holds =
          test == null
              ? PythonValues.truth(value)
              : TemplateTests.apply(test, value, arguments.from(position + 1));
      if (holds == name.startsWith("select")) {
        selected.add(item);
      }
    }
    return selected;
  }

  /** An attribute, or by dots an attribute's attribute. */
  private static Object attribute(Object item, String path) {
    Object value = item;
    for (String part : path.split("\\.")) {
      boolean index = !part.isEmpty() && part.chars().allMatch(Character::isDigit);
      value =
          value == null
              ? null
              : PythonValues.get(value, index ? (Object) Long.valueOf(part) : part);
    }
    return value;
  }

  /** Sorted, texts without regard to their case unless that counts. */
  private static List<Object> sorted(
      List<Object> items, UnaryOperator<Object> key, boolean caseSensitive) {
    TemplateState.current().charge(20 * PythonValues.cost(items));
    Comparator<Object> comparator =
        Comparator.comparing(
            item -> {
              Object value = key.apply(item);
              return value instanceof String text && !caseSensitive
                  ? text.toLowerCase(Locale.ROOT)
                  : value == null ? None.NONE : value;
            },
            PythonValues::compare);
    List<Object> sorted = new ArrayList<>(items);
    sorted.sort(comparator);
    return sorted;
  }
}
