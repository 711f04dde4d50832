package dev.halcyon.engine.tokenizer;

import com.hubspot.jinjava.interpret.Context;
import com.hubspot.jinjava.interpret.JinjavaInterpreter;
import com.hubspot.jinjava.lib.tag.Tag;
import com.hubspot.jinjava.tree.Node;
import com.hubspot.jinjava.tree.TagNode;
import dev.halcyon.engine.tokenizer.TemplateState.Interrupt;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Jinja's tags, where jinjava has none or another idea of them. */
final class TemplateTags {

  private static final Pattern FOR = Pattern.compile("\\s*(.+?)\\s+in\\s+(.+)", Pattern.DOTALL);
  private static final Pattern NAME = Pattern.compile("[\\p{L}_][\\p{L}\\p{N}_]*");

  @FunctionalInterface
  private interface Body {
    String render(TagNode node, JinjavaInterpreter interpreter);
  }

  /** A tag that is a name and what it does. */
  private static final class SimpleTag implements Tag {
    private static final long serialVersionUID = 1;
    private final String name;
    private final String end;
    private final transient Body body;

    SimpleTag(String name, String end, Body body) {
      this.name = name;
      this.end = end;
      this.body = body;
    }

    @Override
    public String getName() {
      return name;
    }

    @Override
    public String getEndTagName() {
      return end;
    }

    @Override
    public String interpret(TagNode node, JinjavaInterpreter interpreter) {
      return body.render(node, interpreter);
    }
  }

  private TemplateTags() {}

  static List<Tag> all() {
    return List.of(
        new SimpleTag("if", "endif", TemplateTags::renderIf),
        new SimpleTag("for", "endfor", TemplateTags::renderFor),
        new SimpleTag("filter", "endfilter", TemplateTags::renderFilter),
        // Marks the assistant's words for training; it changes nothing here.
        new SimpleTag("generation", "endgeneration", (node, i) -> renderAll(node.getChildren(), i)),
        new SimpleTag("break", null, (node, i) -> interrupt(Interrupt.BREAK)),
        new SimpleTag("continue", null, (node, i) -> interrupt(Interrupt.CONTINUE)));
  }

  /** The expressions within a tag that can be read before it is rendered. */
  static List<String> expressions(TagNode node) {
    String rest = node.getHelpers();
    return switch (node.getName()) {
      case "if", "elif" -> List.of(rest);
      case "for" -> loopExpressions(rest);
      case "set" ->
          rest.contains("=")
              ? List.of("[" + rest.substring(rest.indexOf('=') + 1) + "]")
              : List.of();
      case "filter" -> List.of("'' | " + rest);
      default -> List.of();
    };
  }

  private static List<String> loopExpressions(String rest) {
    Loop loop = Loop.parse(rest);
    return loop.condition == null ? List.of(loop.items) : List.of(loop.items, loop.condition);
  }

  private static String interrupt(Interrupt interrupt) {
    TemplateState.current().interrupt = interrupt;
    return "";
  }

  private static Object evaluate(String expression, Node node, JinjavaInterpreter interpreter) {
    Object value = interpreter.resolveELExpression(expression, node.getLineNumber());
    if (!interpreter.getErrors().isEmpty()) {
      // jinjava would go on; ChatTemplate reports the error that it keeps.
      throw new TemplateFailure("an expression failed");
    }
    return value;
  }

  private static String renderAll(List<Node> nodes, JinjavaInterpreter interpreter) {
    TemplateState state = TemplateState.current();
    StringBuilder result = new StringBuilder();
    for (Node node : nodes) {
      result.append(node.render(interpreter).getValue());
      PythonValues.checkSize(result.length());
      if (state.interrupt != Interrupt.NONE) {
        break;
      }
    }
    state.charge(result.length() / 16);
    return result.toString();
  }

  private static String renderIf(TagNode tag, JinjavaInterpreter interpreter) {
    boolean holds = PythonValues.truth(evaluate(tag.getHelpers(), tag, interpreter));
    List<Node> branch = new ArrayList<>();
    for (Node child : tag.getChildren()) {
      String name = child instanceof TagNode part ? part.getName() : "";
      if (!name.equals("elif") && !name.equals("else")) {
        branch.add(child);
        continue;
      }
      if (holds) {
        break;
      }
      branch.clear();
      holds =
          name.equals("else")
              || PythonValues.truth(evaluate(((TagNode) child).getHelpers(), child, interpreter));
    }
    return holds ? renderAll(branch, interpreter) : "";
  }

  private static String renderFilter(TagNode tag, JinjavaInterpreter interpreter) {
    String content = renderAll(tag.getChildren(), interpreter);
    try (JinjavaInterpreter.InterpreterScopeClosable scope = interpreter.enterScope()) {
      interpreter.getContext().put("filtered", content);
      return PythonValues.str(evaluate("filtered | " + tag.getHelpers(), tag, interpreter));
    }
  }

  private record Loop(List<String> names, String items, String condition) {

    /** "a, b in items if condition"; the "if" must be outside of strings and brackets. */
    static Loop parse(String text) {
      Matcher matcher = FOR.matcher(text);
      if (!matcher.matches()) {
        throw new TemplateFailure("'for" + text + "' is not 'for name in values'");
      }
      List<String> names = new ArrayList<>();
      for (String name : matcher.group(1).replaceAll("[()]", "").split(",")) {
        if (!NAME.matcher(name.strip()).matches()) {
          throw new TemplateFailure("'for" + text + "' has no names before 'in'");
        }
        names.add(name.strip());
      }
      String rest = matcher.group(2);
      int condition = conditionIn(rest);
      return condition < 0
          ? new Loop(names, rest, null)
          : new Loop(names, rest.substring(0, condition), rest.substring(condition + 2));
    }

    private static int conditionIn(String text) {
      int depth = 0;
      char quote = 0;
      for (int i = 0; i < text.length(); i++) {
        char c = text.charAt(i);
        if (quote != 0) {
          i += c == '\\' ? 1 : 0;
          quote = c == quote ? 0 : quote;
        } else if (c == '\'' || c == '"') {
          quote = c;
        } else if ("([{".indexOf(c) >= 0) {
          depth++;
        } else if (")]}".indexOf(c) >= 0) {
          depth--;
        } else if (depth == 0 && text.startsWith("if", i) && isWord(text, i, i + 2)) {
          return i;
        }
      }
      return -1;
    }

    private static boolean isWord(String text, int from, int to) {
      return (from == 0 || !Character.isJavaIdentifierPart(text.charAt(from - 1)))
          && (to == text.length() || !Character.isJavaIdentifierPart(text.charAt(to)));
    }
  }

  private static String renderFor(TagNode tag, JinjavaInterpreter interpreter) {
    Loop header = Loop.parse(tag.getHelpers());
    List<Object> items = PythonValues.items(evaluate(header.items, tag, interpreter));
    if (header.condition != null) {
      items = filtered(header, items, tag, interpreter);
    }
    List<Node> body = new ArrayList<>();
    List<Node> otherwise = new ArrayList<>();
    List<Node> part = body;
    for (Node child : tag.getChildren()) {
      if (child instanceof TagNode node && node.getName().equals("else")) {
        part = otherwise;
      } else {
        part.add(child);
      }
    }
    return items.isEmpty()
        ? renderAll(otherwise, interpreter)
        : renderItems(header, items, body, interpreter);
  }

  private static List<Object> filtered(
      Loop header, List<Object> items, TagNode tag, JinjavaInterpreter interpreter) {
    List<Object> kept = new ArrayList<>();
    for (Object item : items) {
      try (JinjavaInterpreter.InterpreterScopeClosable scope = interpreter.enterScope()) {
        assign(header.names, item, interpreter.getContext());
        if (PythonValues.truth(evaluate(header.condition, tag, interpreter))) {
          kept.add(item);
        }
      }
    }
    return kept;
  }

  private static String renderItems(
      Loop header, List<Object> items, List<Node> body, JinjavaInterpreter interpreter) {
    TemplateState state = TemplateState.current();
    Object outer = interpreter.getContext().get("loop");
    TemplateLoop loop =
        new TemplateLoop(items, outer instanceof TemplateLoop around ? around.depth() + 1 : 1);
    StringBuilder result = new StringBuilder();
    for (int i = 0; i < items.size(); i++) {
      state.charge(TemplateState.LOOP_ROUND);
      loop.moveTo(i);
      // A scope for each round: what a round sets, the next one doesn't see.
      try (JinjavaInterpreter.InterpreterScopeClosable scope = interpreter.enterScope()) {
        interpreter.getContext().put("loop", loop);
        assign(header.names, items.get(i), interpreter.getContext());
        result.append(renderAll(body, interpreter));
      }
      PythonValues.checkSize(result.length());
      boolean broken = state.interrupt == Interrupt.BREAK;
      state.interrupt = Interrupt.NONE;
      if (broken) {
        break;
      }
    }
    return result.toString();
  }

  private static void assign(List<String> names, Object item, Context context) {
    if (names.size() == 1) {
      context.put(names.get(0), item);
      return;
    }
    List<Object> parts = PythonValues.items(item);
    if (parts.size() != names.size()) {
      throw new TemplateFailure(
          "a loop has " + names.size() + " names for " + parts.size() + " values");
    }
    for (int i = 0; i < parts.size(); i++) {
      context.put(names.get(i), parts.get(i));
    }
  }
}
