package dev.halcyon.engine.tokenizer;

/**
 * Applies Jinja's rules for white space to a template's text, since jinjava's differ: trim_blocks
 * (the line break after a tag goes), lstrip_blocks (the indent before a tag goes), the marks "-"
 * and "+", and the last line break, which goes. The result has no comments and no marks, and is to
 * be read with no white space control at all. Expressions and tags stay as they are.
 */
final class TemplateText {

  private final String source;
  private final StringBuilder result = new StringBuilder();
  private int at;

  /** Whether the tag or comment before asks for all white space behind it to go. */
  private boolean stripNext;

  /** Whether the tag or comment before takes a line break behind it along. */
  private boolean trimLineBreak;

  private TemplateText(String source) {
    this.source = source;
  }

  /**
   * @throws IllegalArgumentException if a tag, expression or comment isn't closed
   */
  static String normalize(String template) {
    String lines = template.replace("\r\n", "\n").replace('\r', '\n');
    return new TemplateText(lines.endsWith("\n") ? lines.substring(0, lines.length() - 1) : lines)
        .run();
  }

  private String run() {
    while (at < source.length()) {
      int open = nextOpening(at);
      if (open < 0) {
        text(at, source.length(), ' ', false);
        break;
      }
      char kind = source.charAt(open + 1);
      char mark = open + 2 < source.length() ? source.charAt(open + 2) : ' ';
      text(at, open, mark, kind != '{');
      boolean marked = mark == '-' || (mark == '+' && kind != '{');
      inside(open, marked ? open + 3 : open + 2, kind);
    }
    return result.toString();
  }

  private int nextOpening(int from) {
    for (int i = source.indexOf('{', from); i >= 0; i = source.indexOf('{', i + 1)) {
      if (i + 1 < source.length() && "{%#".indexOf(source.charAt(i + 1)) >= 0) {
        return i;
      }
    }
    return -1;
  }

  private void text(int from, int to, char markBehind, boolean blockBehind) {
    int start = from;
    if (stripNext) {
      while (start < to && PythonText.isSpace(source.charAt(start))) {
        start++;
      }
    } else if (trimLineBreak && start < to && source.charAt(start) == '\n') {
      start++;
    }
    int end = to;
    if (markBehind == '-') {
      while (end > start && PythonText.isSpace(source.charAt(end - 1))) {
        end--;
      }
    } else if (blockBehind && markBehind != '+') {
      end = withoutIndent(from, start, to);
    }
    result.append(source, start, end);
  }

  /**
   * The end of the text without the spaces before a tag, if nothing else is before it in its line.
   */
  private int withoutIndent(int from, int start, int to) {
    int lineStart = source.lastIndexOf('\n', to - 1) + 1;
    if (lineStart < from) {
      return to;
    }
    for (int i = lineStart; i < to; i++) {
      if (!PythonText.isSpace(source.charAt(i))) {
        return to;
      }
    }
    return Math.max(start, lineStart);
  }

  private void inside(int open, int from, char kind) {
    int close = kind == '#' ? source.indexOf("#}", from) : closing(from, kind == '{' ? "}}" : "%}");
    if (close < 0) {
      throw new IllegalArgumentException(
          "line " + lineOf(open) + ": '" + source.substring(open, open + 2) + "' is not closed");
    }
    char last = close > from ? source.charAt(close - 1) : ' ';
    boolean marked = last == '-' || (last == '+' && kind != '{');
    stripNext = last == '-' && marked;
    trimLineBreak = kind != '{' && last != '+';
    at = close + 2;
    String content = source.substring(from, marked ? close - 1 : close);
    if (kind == '%' && content.strip().equals("raw")) {
      raw(open);
    } else if (kind != '#') {
      String end = kind == '{' ? "}}" : "%}";
      result.append('{').append(kind).append(' ').append(content.strip()).append(' ').append(end);
    }
  }

  /** Where the text closes that is not within a string or brackets. */
  private int closing(int from, String closing) {
    char quote = 0;
    int braces = 0;
    for (int i = from; i < source.length(); i++) {
      char c = source.charAt(i);
      if (quote != 0) {
        if (c == '\\') {
          i++;
        } else if (c == quote) {
          quote = 0;
        }
      } else if (c == '\'' || c == '"') {
        quote = c;
      } else if (c == '{') {
        braces++;
      } else if (c == '}' && braces > 0) {
        braces--;
      } else if (source.startsWith(closing, i)) {
        return i;
      }
    }
    return -1;
  }

  private void raw(int open) {
    int end = -1;
    for (int i = source.indexOf("{%", at); i >= 0 && end < 0; i = source.indexOf("{%", i + 2)) {
      int close = source.indexOf("%}", i);
      if (close > 0 && source.substring(i + 2, close).replaceAll("[-+\\s]", "").equals("endraw")) {
        end = i;
      }
    }
    if (end < 0) {
      throw new IllegalArgumentException("line " + lineOf(open) + ": 'raw' is not closed");
    }
    result.append("{% raw %}");
    text(at, end, source.charAt(end + 2), true);
    result.append("{% endraw %}");
    int close = source.indexOf("%}", end);
    stripNext = source.charAt(close - 1) == '-';
    trimLineBreak = source.charAt(close - 1) != '+';
    at = close + 2;
  }

  private int lineOf(int index) {
    return 1 + (int) source.substring(0, index).chars().filter(c -> c == '\n').count();
  }
}
