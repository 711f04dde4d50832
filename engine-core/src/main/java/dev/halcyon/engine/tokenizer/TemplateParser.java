package dev.halcyon.engine.tokenizer;

import static jinjava.de.odysseus.el.tree.impl.Scanner.Symbol.COLON;
import static jinjava.de.odysseus.el.tree.impl.Scanner.Symbol.COMMA;
import static jinjava.de.odysseus.el.tree.impl.Scanner.Symbol.IDENTIFIER;
import static jinjava.de.odysseus.el.tree.impl.Scanner.Symbol.LBRACK;
import static jinjava.de.odysseus.el.tree.impl.Scanner.Symbol.LPAREN;
import static jinjava.de.odysseus.el.tree.impl.Scanner.Symbol.NOT;
import static jinjava.de.odysseus.el.tree.impl.Scanner.Symbol.QUESTION;
import static jinjava.de.odysseus.el.tree.impl.Scanner.Symbol.RBRACK;
import static jinjava.de.odysseus.el.tree.impl.Scanner.Symbol.RPAREN;

import com.hubspot.jinjava.el.ext.ExtendedParser;
import com.hubspot.jinjava.el.ext.ExtendedScanner;
import com.hubspot.jinjava.el.ext.NamedParameter;
import dev.halcyon.engine.tokenizer.TemplateNodes.Node;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import jinjava.de.odysseus.el.tree.impl.Builder;
import jinjava.de.odysseus.el.tree.impl.Parser;
import jinjava.de.odysseus.el.tree.impl.Scanner;
import jinjava.de.odysseus.el.tree.impl.Scanner.ScanException;
import jinjava.de.odysseus.el.tree.impl.Scanner.Symbol;
import jinjava.de.odysseus.el.tree.impl.ast.AstNode;

/**
 * Jinja's grammar of expressions, with its precedences, on jinjava's scanner. The nodes it makes
 * reach nothing but {@link TemplateNodes}: no Java object's properties or methods.
 */
final class TemplateParser extends ExtendedParser {

  /** Makes a parser for each expression. */
  static final class Syntax extends Builder {
    private static final long serialVersionUID = 1;

    @Override
    protected Parser createParser(String expression) {
      return new TemplateParser(this, expression);
    }
  }

  /** Words that are operators or literals in Java's expression language, but names in Jinja. */
  private static final Set<String> NAMES =
      Set.of("eq", "ne", "lt", "gt", "le", "ge", "div", "mod", "empty", "instanceof", "null");

  private TemplateParser(Builder builder, String input) {
    super(builder, input);
  }

  @Override
  protected Scanner createScanner(String expression) {
    return new ExtendedScanner(expression) {
      @Override
      protected Token keyword(String word) {
        return NAMES.contains(word) ? null : super.keyword(word);
      }

      @Override
      protected Token nextEval() throws ScanException {
        return getInput().charAt(getPosition()) == '+' ? fixed(Symbol.PLUS) : super.nextEval();
      }
    };
  }

  @Override
  protected AstNode expr(boolean required) throws ScanException, ParseException {
    AstNode value = or(required);
    while (value != null && getToken().getSymbol() == QUESTION && isNext("if")) {
      consumeToken();
      AstNode condition = or(true);
      AstNode otherwise = null;
      if (isNext("else")) {
        consumeToken();
        otherwise = expr(true);
      }
      value = TemplateNodes.choice(condition, value, otherwise);
    }
    return value;
  }

  @Override
  protected AstNode or(boolean required) throws ScanException, ParseException {
    AstNode left = and(required);
    while (left != null && getToken().getSymbol() == Symbol.OR) {
      consumeToken();
      left = TemplateNodes.either(left, and(true), true);
    }
    return left;
  }

  @Override
  protected AstNode and(boolean required) throws ScanException, ParseException {
    AstNode left = not(required);
    while (left != null && getToken().getSymbol() == Symbol.AND) {
      consumeToken();
      left = TemplateNodes.either(left, not(true), false);
    }
    return left;
  }

  private AstNode not(boolean required) throws ScanException, ParseException {
    if (getToken().getSymbol() == NOT) {
      consumeToken();
      return TemplateNodes.not(not(true));
    }
    return cmp(required);
  }

  /** Comparisons; a chain a < b < c holds if each does. */
  @Override
  protected AstNode cmp(boolean required) throws ScanException, ParseException {
    AstNode left = add(required);
    AstNode all = null;
    while (left != null) {
      String operator = comparison();
      if (operator == null) {
        break;
      }
      AstNode right = add(true);
      AstNode comparison = TemplateNodes.comparison(operator, left, right);
      all = all == null ? comparison : TemplateNodes.either(all, comparison, false);
      left = right;
    }
    return all == null ? left : all;
  }

  /** The comparison that comes next, consumed, or null. */
  private String comparison() throws ScanException, ParseException {
    switch (getToken().getSymbol()) {
      case EQ, NE, LT, LE, GT, GE -> {
        return consumeToken().getSymbol().name();
      }
      case NOT -> {
        if (lookahead(0).getImage().equals("in")) {
          consumeToken();
          consumeToken();
          return "NOT IN";
        }
        return null;
      }
      default -> {
        if (isOperator("in")) {
          consumeToken();
          return "IN";
        }
        return null;
      }
    }
  }

  @Override
  protected AstNode add(boolean required) throws ScanException, ParseException {
    AstNode left = concat(required);
    while (left != null) {
      if (getToken().getSymbol() == Symbol.PLUS) {
        consumeToken();
        left = TemplateNodes.binary('+', left, concat(true));
      } else if (getToken().getSymbol() == Symbol.MINUS) {
        consumeToken();
        left = TemplateNodes.binary('-', left, concat(true));
      } else {
        break;
      }
    }
    return left;
  }

  private AstNode concat(boolean required) throws ScanException, ParseException {
    AstNode left = mul(required);
    while (left != null && isOperator("~")) {
      consumeToken();
      left = TemplateNodes.binary('~', left, mul(true));
    }
    return left;
  }

  @Override
  protected AstNode mul(boolean required) throws ScanException, ParseException {
    AstNode left = power(required);
    while (left != null) {
      char operator = ' ';
      switch (getToken().getSymbol()) {
        case MUL -> operator = '*';
        case DIV -> operator = '/';
        case MOD -> operator = '%';
        default -> operator = isOperator("//") ? 'd' : ' ';
      }
      if (operator == ' ') {
        break;
      }
      consumeToken();
      left = TemplateNodes.binary(operator, left, power(true));
    }
    return left;
  }

  private AstNode power(boolean required) throws ScanException, ParseException {
    AstNode left = unary(required);
    while (left != null && isOperator("**")) {
      consumeToken();
      left = TemplateNodes.binary('p', left, unary(true));
    }
    return left;
  }

  /** A sign, or a value; then its filters and tests. */
  @Override
  protected AstNode unary(boolean required) throws ScanException, ParseException {
    AstNode value = signed(required);
    while (value != null) {
      if (isOperator("|") && lookahead(0).getSymbol() == IDENTIFIER) {
        consumeToken();
        String filter = consumeToken().getImage();
        value = TemplateNodes.filter(known(TemplateFilters.NAMES, filter), value, arguments());
      } else if (getToken().getSymbol() == IDENTIFIER && isNext("is")) {
        consumeToken();
        value = test(value);
      } else {
        break;
      }
    }
    return value;
  }

  private AstNode signed(boolean required) throws ScanException, ParseException {
    if (getToken().getSymbol() == Symbol.MINUS || getToken().getSymbol() == Symbol.PLUS) {
      boolean negative = consumeToken().getSymbol() == Symbol.MINUS;
      AstNode value = signed(true);
      return negative ? TemplateNodes.negative(value) : value;
    }
    AstNode value = value();
    if (value == null && required) {
      fail("an expression");
    }
    return value;
  }

  private AstNode test(AstNode value) throws ScanException, ParseException {
    boolean negated = getToken().getSymbol() == NOT;
    if (negated) {
      consumeToken();
    }
    String test = known(TemplateTests.NAMES, consumeToken().getImage());
    List<AstNode> arguments = List.of();
    if (getToken().getSymbol() == LPAREN) {
      arguments = arguments();
    } else if (startsArgument()) {
      arguments = List.of(value());
    }
    Node node = TemplateNodes.test(test, value, arguments);
    return negated ? TemplateNodes.not(node) : node;
  }

  /** Whether a test's argument follows without parentheses. */
  private boolean startsArgument() {
    return switch (getToken().getSymbol()) {
      case STRING, INTEGER, FLOAT, LBRACK, TRUE, FALSE -> true;
      case IDENTIFIER -> !isNext("is");
      default -> false;
    };
  }

  @Override
  protected AstNode value() throws ScanException, ParseException {
    AstNode value = nonliteral();
    if (value == null) {
      value = literal();
    }
    while (value != null) {
      if (getToken().getSymbol() == Symbol.DOT) {
        consumeToken();
        Scanner.Token name = consumeToken();
        boolean call = getToken().getSymbol() == LPAREN;
        value =
            call
                ? TemplateNodes.method(value, name.getImage(), arguments())
                : TemplateNodes.member(value, TemplateNodes.constant(name.getImage()));
      } else if (getToken().getSymbol() == LBRACK) {
        consumeToken();
        value = subscript(value);
      } else {
        break;
      }
    }
    return value;
  }

  private AstNode subscript(AstNode value) throws ScanException, ParseException {
    AstNode first = expr(false);
    if (first != null && getToken().getSymbol() == RBRACK) {
      consumeToken();
      return TemplateNodes.member(value, first);
    }
    consumeToken(COLON);
    AstNode end = expr(false);
    AstNode step = null;
    if (getToken().getSymbol() == COLON) {
      consumeToken();
      step = expr(false);
    }
    consumeToken(RBRACK);
    return TemplateNodes.slice(value, first, end, step);
  }

  @Override
  protected AstNode nonliteral() throws ScanException, ParseException {
    if (getToken().getSymbol() == IDENTIFIER) {
      String name = consumeToken().getImage();
      return getToken().getSymbol() == LPAREN
          ? TemplateNodes.call(name, arguments())
          : TemplateNodes.variable(name);
    }
    if (getToken().getSymbol() != LPAREN) {
      return null;
    }
    consumeToken();
    List<AstNode> items = new ArrayList<>();
    boolean tuple = readItems(RPAREN, items) || items.isEmpty();
    return tuple ? TemplateNodes.tuple(items) : items.get(0);
  }

  @Override
  protected AstNode literal() throws ScanException, ParseException {
    if (getToken().getSymbol() == LBRACK) {
      consumeToken();
      List<AstNode> items = new ArrayList<>();
      readItems(RBRACK, items);
      return TemplateNodes.list(items);
    }
    if (isOperator("{")) {
      return mapping();
    }
    return isOperator("}") ? null : super.literal();
  }

  private AstNode mapping() throws ScanException, ParseException {
    consumeToken();
    List<AstNode> keys = new ArrayList<>();
    List<AstNode> values = new ArrayList<>();
    while (!isNext("}")) {
      keys.add(expr(true));
      consumeToken(COLON);
      values.add(expr(true));
      if (!isNext("}")) {
        consumeToken(COMMA);
      }
    }
    consumeToken();
    return TemplateNodes.mapping(keys, values);
  }

  private List<AstNode> arguments() throws ScanException, ParseException {
    List<AstNode> arguments = new ArrayList<>();
    if (getToken().getSymbol() != LPAREN) {
      return arguments;
    }
    consumeToken();
    while (getToken().getSymbol() != RPAREN) {
      if (getToken().getSymbol() == IDENTIFIER && lookahead(0).getImage().equals("=")) {
        String name = consumeToken().getImage();
        consumeToken();
        AstNode value = expr(true);
        arguments.add(
            new Node(
                (bindings, context) -> new NamedParameter(name, value.eval(bindings, context))));
      } else {
        arguments.add(expr(true));
      }
      if (getToken().getSymbol() != RPAREN) {
        consumeToken(COMMA);
      }
    }
    consumeToken();
    return arguments;
  }

  /** Reads up to the closing bracket; says whether there was a comma. */
  private boolean readItems(Symbol closing, List<AstNode> items)
      throws ScanException, ParseException {
    boolean comma = false;
    while (getToken().getSymbol() != closing) {
      items.add(expr(true));
      if (getToken().getSymbol() != closing) {
        consumeToken(COMMA);
        comma = true;
      }
    }
    consumeToken();
    return comma;
  }

  private boolean isNext(String image) {
    return getToken().getSymbol() != Symbol.STRING && image.equals(getToken().getImage());
  }

  private boolean isOperator(String image) {
    return getToken().getSymbol() == Symbol.EXTENSION && image.equals(getToken().getImage());
  }

  private static String known(Set<String> names, String name) {
    if (!names.contains(name)) {
      throw new TemplateFailure("there is no filter or test '" + name + "'");
    }
    return name;
  }
}
