package dev.halcyon.engine.tokenizer;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** What Python does with strings: counted in code points, with its idea of white space. */
final class PythonText {

  private PythonText() {}

  static boolean isSpace(int c) {
    return Character.isWhitespace(c) || Character.isSpaceChar(c) || c == 0x85;
  }

  static int length(String text) {
    return text.codePointCount(0, text.length());
  }

  /** The text without the given characters (white space if null) on the chosen sides. */
  static String strip(String text, String characters, boolean left, boolean right) {
    int start = 0;
    int end = text.length();
    while (left && start < end && goes(text.codePointAt(start), characters)) {
      start += Character.charCount(text.codePointAt(start));
    }
    while (right && end > start && goes(text.codePointBefore(end), characters)) {
      end -= Character.charCount(text.codePointBefore(end));
    }
    return text.substring(start, end);
  }

  private static boolean goes(int c, String characters) {
    return characters == null ? isSpace(c) : characters.indexOf(c) >= 0;
  }

  /**
   * The parts between separators; without a separator, the words.
   *
   * @param limit how many times to split at most, counted from the left; negative for no limit
   */
  static List<Object> split(String text, String separator, long limit) {
    List<Object> parts = new ArrayList<>();
    String rest = separator == null ? strip(text, null, true, false) : text;
    while (true) {
      int at = limit >= 0 && parts.size() >= limit ? -1 : find(rest, separator);
      if (at < 0) {
        break;
      }
      parts.add(rest.substring(0, at));
      rest =
          separator == null
              ? strip(rest.substring(at), null, true, false)
              : rest.substring(at + separator.length());
    }
    if (separator != null || !rest.isEmpty()) {
      parts.add(rest);
    }
    return parts;
  }

  /** As {@link #split} with a separator, counted from the right. */
  static List<Object> splitRight(String text, String separator, long limit) {
    List<Object> parts = new ArrayList<>();
    String rest = text;
    while (limit < 0 || parts.size() < limit) {
      int at = rest.lastIndexOf(separator);
      if (at < 0) {
        break;
      }
      parts.add(0, rest.substring(at + separator.length()));
      rest = rest.substring(0, at);
    }
    parts.add(0, rest);
    return parts;
  }

  private static int find(String text, String separator) {
    if (separator != null) {
      return text.indexOf(separator);
    }
    for (int i = 0; i < text.length(); i++) {
      if (isSpace(text.charAt(i))) {
        return i;
      }
    }
    return -1;
  }

  /** Replaces the first so many occurrences, all if the limit is negative. */
  static String replace(String text, String from, String to, long limit) {
    if (limit < 0) {
      return text.replace(from, to);
    }
    StringBuilder result = new StringBuilder();
    int at = 0;
    for (long i = 0; i < limit && at <= text.length(); i++) {
      int found = text.indexOf(from, at);
      if (found < 0 || from.isEmpty()) {
        break;
      }
      result.append(text, at, found).append(to);
      at = found + from.length();
    }
    return result.append(text, at, text.length()).toString();
  }

  static String capitalize(String text) {
    if (text.isEmpty()) {
      return text;
    }
    int first = Character.charCount(text.codePointAt(0));
    return text.substring(0, first).toUpperCase(Locale.ROOT)
        + text.substring(first).toLowerCase(Locale.ROOT);
  }

  /** Capitalises every run of letters. */
  static String title(String text) {
    StringBuilder result = new StringBuilder();
    boolean inWord = false;
    for (int c : text.codePoints().toArray()) {
      result.appendCodePoint(inWord ? Character.toLowerCase(c) : Character.toTitleCase(c));
      inWord = Character.isLetter(c);
    }
    return result.toString();
  }

  /** The lines, without their ends. */
  static List<Object> lines(String text) {
    return new ArrayList<>(text.lines().toList());
  }

  /** The text as Python's repr() shows it. */
  static String repr(String text) {
    char quote = text.contains("'") && !text.contains("\"") ? '"' : '\'';
    StringBuilder result = new StringBuilder().append(quote);
    for (int c : text.codePoints().toArray()) {
      switch (c) {
        case '\n' -> result.append("\\n");
        case '\r' -> result.append("\\r");
        case '\t' -> result.append("\\t");
        case '\\' -> result.append("\\\\");
        default -> {
          if (c == quote) {
            result.append('\\').append(quote);
          } else if (c < 0x20 || c == 0x7F) {
            result.append(String.format("\\x%02x", c));
          } else {
            result.appendCodePoint(c);
          }
        }
      }
    }
    return result.append(quote).toString();
  }
}
