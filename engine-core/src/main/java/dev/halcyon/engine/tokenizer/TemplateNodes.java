package dev.halcyon.engine.tokenizer;

import com.hubspot.jinjava.interpret.Context;
import com.hubspot.jinjava.interpret.JinjavaInterpreter;
import com.hubspot.jinjava.lib.fn.MacroFunction;
import dev.halcyon.engine.tokenizer.PythonValues.None;
import dev.halcyon.engine.tokenizer.PythonValues.Tuple;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import jinjava.de.odysseus.el.tree.Bindings;
import jinjava.de.odysseus.el.tree.impl.ast.AstNode;
import jinjava.de.odysseus.el.tree.impl.ast.AstRightValue;
import jinjava.javax.el.ELContext;

/** The nodes of expressions, evaluated by {@link PythonValues}' rules. */
final class TemplateNodes {

  @FunctionalInterface
  interface Evaluation {
    Object eval(Bindings bindings, ELContext context);
  }

  /** A node that is nothing but its value. */
  static final class Node extends AstRightValue {
    private final Evaluation evaluation;

    Node(Evaluation evaluation) {
      this.evaluation = evaluation;
    }

    @Override
    public Object eval(Bindings bindings, ELContext context) {
      return evaluation.eval(bindings, context);
    }

    @Override
    public void appendStructure(StringBuilder text, Bindings bindings) {
      text.append("expression");
    }

    @Override
    public int getCardinality() {
      return 0;
    }

    @Override
    public AstNode getChild(int index) {
      return null;
    }
  }

  private TemplateNodes() {}

  static Node constant(Object value) {
    return new Node((bindings, context) -> value);
  }

  static Node variable(String name) {
    if (name.equals("none") || name.equals("None")) {
      return constant(None.NONE);
    }
    return new Node((bindings, context) -> JinjavaInterpreter.getCurrent().getContext().get(name));
  }

  static Node choice(AstNode condition, AstNode value, AstNode otherwise) {
    return new Node(
        (bindings, context) -> {
          if (PythonValues.truth(condition.eval(bindings, context))) {
            return value.eval(bindings, context);
          }
          return otherwise == null ? null : otherwise.eval(bindings, context);
        });
  }

  /** "or" gives the left value if it is true, "and" if it is false; else the right one. */
  static Node either(AstNode left, AstNode right, boolean or) {
    return new Node(
        (bindings, context) -> {
          Object value = left.eval(bindings, context);
          return PythonValues.truth(value) == or ? value : right.eval(bindings, context);
        });
  }

  static Node not(AstNode value) {
    return new Node((bindings, context) -> !PythonValues.truth(value.eval(bindings, context)));
  }

  static Node negative(AstNode value) {
    return new Node(
        (bindings, context) -> PythonValues.arithmetic('-', 0L, value.eval(bindings, context)));
  }

  static Node comparison(String operator, AstNode left, AstNode right) {
    return new Node(
        (bindings, context) -> {
          Object a = left.eval(bindings, context);
          Object b = right.eval(bindings, context);
          TemplateState.current().charge(PythonValues.cost(a) + PythonValues.cost(b));
          return switch (operator) {
            case "EQ" -> PythonValues.equal(a, b);
            case "NE" -> !PythonValues.equal(a, b);
            case "LT" -> PythonValues.compare(a, b) < 0;
            case "LE" -> PythonValues.compare(a, b) <= 0;
            case "GT" -> PythonValues.compare(a, b) > 0;
            case "GE" -> PythonValues.compare(a, b) >= 0;
            case "IN" -> PythonValues.contains(b, a);
            default -> !PythonValues.contains(b, a);
          };
        });
  }

  /**
   * @param operator as {@link PythonValues#arithmetic} has them, and ~ for joining texts
   */
  static Node binary(char operator, AstNode left, AstNode right) {
    return new Node(
        (bindings, context) -> {
          Object a = left.eval(bindings, context);
          Object b = right.eval(bindings, context);
          Object result =
              switch (operator) {
                case '~' -> PythonValues.add(PythonValues.str(a), PythonValues.str(b));
                case '+' -> PythonValues.add(a, b);
                case '*' -> PythonValues.multiply(a, b);
                default -> PythonValues.arithmetic(operator, a, b);
              };
          TemplateState.current().charge(PythonValues.cost(result));
          return result;
        });
  }

  static Node member(AstNode value, AstNode key) {
    return new Node(
        (bindings, context) ->
            PythonValues.get(value.eval(bindings, context), key.eval(bindings, context)));
  }

  static Node slice(AstNode value, AstNode from, AstNode to, AstNode step) {
    return new Node(
        (bindings, context) -> {
          Object whole = value.eval(bindings, context);
          TemplateState.current().charge(PythonValues.length(whole));
          return PythonValues.slice(
              whole,
              evalOrNull(from, bindings, context),
              evalOrNull(to, bindings, context),
              evalOrNull(step, bindings, context));
        });
  }

  private static Object evalOrNull(AstNode node, Bindings bindings, ELContext context) {
    Object value = node == null ? null : node.eval(bindings, context);
    return value == None.NONE ? null : value;
  }

  static Node list(List<AstNode> items) {
    return new Node((bindings, context) -> evalAll(items, bindings, context));
  }

  static Node tuple(List<AstNode> items) {
    return new Node((bindings, context) -> new Tuple(evalAll(items, bindings, context)));
  }

  static Node mapping(List<AstNode> keys, List<AstNode> values) {
    return new Node(
        (bindings, context) -> {
          Map<String, Object> map = new LinkedHashMap<>();
          for (int i = 0; i < keys.size(); i++) {
            Object key = keys.get(i).eval(bindings, context);
            map.put(PythonValues.str(key), values.get(i).eval(bindings, context));
          }
          return map;
        });
  }

  static Node filter(String name, AstNode value, List<AstNode> arguments) {
    return new Node(
        (bindings, context) ->
            charged(
                value.eval(bindings, context),
                Arguments.of(evalAll(arguments, bindings, context)),
                (base, args) -> TemplateFilters.apply(name, base, args)));
  }

  static Node test(String name, AstNode value, List<AstNode> arguments) {
    return new Node(
        (bindings, context) ->
            charged(
                value.eval(bindings, context),
                Arguments.of(evalAll(arguments, bindings, context)),
                (base, args) -> TemplateTests.apply(name, base, args)));
  }

  static Node method(AstNode value, String name, List<AstNode> arguments) {
    return new Node(
        (bindings, context) ->
            charged(
                value.eval(bindings, context),
                Arguments.of(evalAll(arguments, bindings, context)),
                (base, args) -> TemplateMethods.call(base, name, args)));
  }

  /** A macro's call, or a function's. */
  static Node call(String name, List<AstNode> arguments) {
    return new Node(
        (bindings, context) -> {
          List<Object> values = evalAll(arguments, bindings, context);
          TemplateState state = TemplateState.current();
          state.charge(TemplateState.MACRO_CALL);
          Context scope = JinjavaInterpreter.getCurrent().getContext();
          MacroFunction macro = scope.getGlobalMacro(name);
          if (macro == null) {
            return charged(
                null, Arguments.of(values), (none, args) -> TemplateMethods.function(name, args));
          }
          state.enterCall();
          try {
            return macro.evaluate(values.toArray());
          } finally {
            state.leaveCall();
          }
        });
  }

  @FunctionalInterface
  private interface Operation {
    Object apply(Object value, Arguments arguments);
  }

  private static Object charged(Object value, Arguments arguments, Operation operation) {
    TemplateState state = TemplateState.current();
    state.charge(PythonValues.cost(value) + arguments.cost());
    Object result = operation.apply(value, arguments);
    state.charge(PythonValues.cost(result));
    return result;
  }

  private static List<Object> evalAll(List<AstNode> nodes, Bindings bindings, ELContext context) {
    List<Object> values = new ArrayList<>();
    for (AstNode node : nodes) {
      values.add(node.eval(bindings, context));
    }
    return values;
  }
}
