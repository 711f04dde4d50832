package dev.halcyon.engine.tokenizer;

import dev.halcyon.engine.tokenizer.PythonValues.None;
import java.util.Collection;
import java.util.Map;

/**
 * JSON as transformers' tojson writes it: like Python's json.dumps, with all characters as they
 * are, nothing escaped for HTML, and keys in their order.
 */
final class TemplateJson {

  private final StringBuilder result = new StringBuilder();
  private final int indent;

  private TemplateJson(int indent) {
    this.indent = indent;
  }

  /**
   * @param indent spaces for each level; negative for all in one line
   */
  static String write(Object value, int indent) {
    TemplateJson json = new TemplateJson(Math.min(indent, 64));
    json.value(value, 0);
    return json.result.toString();
  }

  private void value(Object value, int level) {
    PythonValues.checkSize(result.length());
    if (value instanceof String text) {
      text(text);
    } else if (value instanceof Map<?, ?> map) {
      String separator = "";
      result.append('{');
      for (Map.Entry<?, ?> entry : map.entrySet()) {
        result.append(separator);
        lineBreak(level + 1);
        text(PythonValues.str(entry.getKey()));
        result.append(": ");
        value(entry.getValue(), level + 1);
        separator = indent < 0 ? ", " : ",";
      }
      close(map.isEmpty(), level, '}');
    } else if (value instanceof Collection<?> list) {
      String separator = "";
      result.append('[');
      for (Object item : list) {
        result.append(separator);
        lineBreak(level + 1);
        value(item, level + 1);
        separator = indent < 0 ? ", " : ",";
      }
      close(list.isEmpty(), level, ']');
    } else if (value instanceof Double number) {
      result.append(
          number.isNaN()
              ? "NaN"
              : number.isInfinite()
                  ? (number > 0 ? "Infinity" : "-Infinity")
                  : PythonValues.number(number));
    } else if (value instanceof Long || value instanceof Boolean) {
      result.append(value);
    } else if (value == None.NONE) {
      result.append("null");
    } else {
      throw new TemplateFailure("tojson can't write " + PythonValues.type(value));
    }
  }

  private void close(boolean empty, int level, char bracket) {
    if (!empty) {
      lineBreak(level);
    }
    result.append(bracket);
  }

  private void lineBreak(int level) {
    if (indent >= 0) {
      PythonValues.checkSize((double) result.length() + (double) indent * level);
      result.append('\n').append(" ".repeat(indent * level));
    }
  }

  private void text(String text) {
    result.append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      switch (c) {
        case '"' -> result.append("\\\"");
        case '\\' -> result.append("\\\\");
        case '\n' -> result.append("\\n");
        case '\r' -> result.append("\\r");
        case '\t' -> result.append("\\t");
        case '\b' -> result.append("\\b");
        case '\f' -> result.append("\\f");
        default -> {
          if (c < 0x20) {
            result.append(String.format("\\u%04x", (int) c));
          } else {
            result.append(c);
          }
        }
      }
    }
    result.append('"');
  }
}
