package dev.halcyon.engine.tokenizer;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.AbstractList;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What a template computes with, and Python's rules for it: String, Long, Double, Boolean, List,
 * {@link Tuple}, Map with string keys, {@link None}, and null for what is not defined.
 */
final class PythonValues {

  /** No text or list that a template makes grows beyond this. */
  static final int LARGEST = 1 << 22;

  /** Python's None, which is a value; null stands for what is not defined. */
  enum None {
    NONE
  }

  /** A list that shows itself in parentheses. */
  static final class Tuple extends AbstractList<Object> {
    private final List<Object> items;

    Tuple(List<Object> items) {
      this.items = items;
    }

    @Override
    public Object get(int index) {
      return items.get(index);
    }

    @Override
    public int size() {
      return items.size();
    }
  }

  private PythonValues() {}

  /** A value from outside, with None for null and numbers in their two types. */
  static Object of(Object value) {
    if (value == null) {
      return None.NONE;
    }
    if (value instanceof Map<?, ?> map) {
      Map<String, Object> copy = new LinkedHashMap<>();
      map.forEach((key, item) -> copy.put(String.valueOf(key), of(item)));
      return copy;
    }
    if (value instanceof Collection<?> list) {
      List<Object> copy = new ArrayList<>();
      list.forEach(item -> copy.add(of(item)));
      return copy;
    }
    if (value instanceof Float || value instanceof Double || value instanceof BigDecimal) {
      return ((Number) value).doubleValue();
    }
    return value instanceof Number number ? (Object) number.longValue() : value;
  }

  static boolean truth(Object value) {
    if (value == null || value == None.NONE) {
      return false;
    }
    if (value instanceof Boolean flag) {
      return flag;
    }
    if (value instanceof Number number) {
      return number.doubleValue() != 0;
    }
    if (value instanceof String text) {
      return !text.isEmpty();
    }
    if (value instanceof Collection<?> list) {
      return !list.isEmpty();
    }
    return !(value instanceof Map<?, ?> map) || !map.isEmpty();
  }

  static String str(Object value) {
    if (value == null) {
      return "";
    }
    return value instanceof String text ? text : repr(value);
  }

  static String repr(Object value) {
    StringBuilder result = new StringBuilder();
    repr(value, result);
    return result.toString();
  }

  private static void repr(Object value, StringBuilder result) {
    checkSize(result.length());
    if (value instanceof String text) {
      result.append(PythonText.repr(text));
    } else if (value instanceof Boolean flag) {
      result.append(flag ? "True" : "False");
    } else if (value instanceof Double number) {
      result.append(number(number));
    } else if (value instanceof Map<?, ?> map) {
      String separator = "{";
      for (Map.Entry<?, ?> entry : map.entrySet()) {
        result.append(separator);
        repr(entry.getKey(), result);
        result.append(": ");
        repr(entry.getValue(), result);
        separator = ", ";
      }
      result.append(map.isEmpty() ? "{}" : "}");
    } else if (value instanceof Collection<?> list) {
      boolean tuple = value instanceof Tuple;
      String separator = "";
      result.append(tuple ? '(' : '[');
      for (Object item : list) {
        result.append(separator);
        repr(item, result);
        separator = ", ";
      }
      result.append(tuple ? (list.size() == 1 ? ",)" : ")") : "]");
    } else {
      result.append(value == null ? "Undefined" : value == None.NONE ? "None" : value.toString());
    }
  }

  /** A float as Python writes it. */
  static String number(double value) {
    if (Double.isNaN(value) || Double.isInfinite(value)) {
      return Double.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
    }
    double size = Math.abs(value);
    if (size == 0 || (size >= 1e-4 && size < 1e16)) {
      String plain = new BigDecimal(Double.toString(value)).toPlainString();
      return plain.contains(".") ? plain : plain + ".0";
    }
    String[] parts = Double.toString(value).split("E");
    String mantissa = parts[0].endsWith(".0") ? parts[0].replace(".0", "") : parts[0];
    int exponent = Integer.parseInt(parts[1]);
    String digits = (Math.abs(exponent) < 10 ? "0" : "") + Math.abs(exponent);
    return mantissa + "e" + (exponent < 0 ? "-" : "+") + digits;
  }

  static boolean equal(Object left, Object right) {
    return equal(left, right, new int[] {LARGEST});
  }

  /** Lists that hold one another many times over would take exponential time: hence the budget. */
  private static boolean equal(Object left, Object right, int[] budget) {
    if (--budget[0] < 0) {
      throw new TemplateFailure("values are too large to compare");
    }
    if (isNumber(left) && isNumber(right)) {
      return compareNumbers(left, right) == 0;
    }
    if (left instanceof List<?> a && right instanceof List<?> b) {
      if (a.size() != b.size() || a instanceof Tuple != b instanceof Tuple) {
        return false;
      }
      for (int i = 0; i < a.size(); i++) {
        if (!equal(a.get(i), b.get(i), budget)) {
          return false;
        }
      }
      return true;
    }
    if (left instanceof Map<?, ?> a && right instanceof Map<?, ?> b) {
      return a.keySet().equals(b.keySet())
          && a.keySet().stream().allMatch(key -> equal(a.get(key), b.get(key), budget));
    }
    return left == null ? right == null : left.equals(right);
  }

  /** Negative, 0 or positive; numbers with numbers, texts by code points, lists by their items. */
  static int compare(Object left, Object right) {
    if (isNumber(left) && isNumber(right)) {
      return compareNumbers(left, right);
    }
    if (left instanceof String a && right instanceof String b) {
      return Arrays.compare(a.codePoints().toArray(), b.codePoints().toArray());
    }
    if (left instanceof List<?> a && right instanceof List<?> b) {
      for (int i = 0; i < Math.min(a.size(), b.size()); i++) {
        if (!equal(a.get(i), b.get(i))) {
          return compare(a.get(i), b.get(i));
        }
      }
      return Integer.compare(a.size(), b.size());
    }
    throw new TemplateFailure("can't compare " + type(left) + " with " + type(right));
  }

  static boolean contains(Object container, Object item) {
    if (container instanceof String text) {
      if (item instanceof String part) {
        return text.contains(part);
      }
      throw new TemplateFailure("a text can't contain " + type(item));
    }
    if (container instanceof Map<?, ?> map) {
      return item instanceof String && map.containsKey(item);
    }
    if (container instanceof Collection<?> list) {
      return list.stream().anyMatch(element -> equal(element, item));
    }
    throw new TemplateFailure("'in' can't look into " + type(container));
  }

  static Object add(Object left, Object right) {
    if (left instanceof String a && right instanceof String b) {
      checkSize((long) a.length() + b.length());
      return a.concat(b);
    }
    if (left instanceof List<?> a && right instanceof List<?> b) {
      checkSize((long) a.size() + b.size());
      List<Object> sum = new ArrayList<>(a);
      sum.addAll(b);
      return left instanceof Tuple ? new Tuple(sum) : sum;
    }
    return arithmetic('+', left, right);
  }

  static Object multiply(Object left, Object right) {
    if (right instanceof String || right instanceof List) {
      return multiply(right, left);
    }
    if (left instanceof String text && right instanceof Long count) {
      checkSize((double) text.length() * count);
      return text.repeat((int) Math.max(0, count));
    }
    if (left instanceof List<?> list && right instanceof Long count) {
      checkSize((double) list.size() * count);
      List<Object> repeated = new ArrayList<>();
      for (long i = 0; i < count; i++) {
        repeated.addAll(list);
      }
      return repeated;
    }
    return arithmetic('*', left, right);
  }

  /**
   * @param operator one of + - * / % and, for //, d, for **, p
   */
  static Object arithmetic(char operator, Object left, Object right) {
    if (!isNumber(left) || !isNumber(right)) {
      throw new TemplateFailure("can't compute " + type(left) + " " + operator + " " + type(right));
    }
    if ("/d%".indexOf(operator) >= 0 && asDouble(right) == 0) {
      throw new TemplateFailure("division by zero");
    }
    if (left instanceof Double || right instanceof Double || operator == '/') {
      return asFloats(operator, asDouble(left), asDouble(right));
    }
    long a = asLong(left);
    long b = asLong(right);
    try {
      return switch (operator) {
        case '+' -> Math.addExact(a, b);
        case '-' -> Math.subtractExact(a, b);
        case '*' -> Math.multiplyExact(a, b);
        case 'd' -> Math.floorDiv(a, b);
        case '%' -> Math.floorMod(a, b);
        default ->
            b < 0
                ? (Object) Math.pow(a, b)
                : BigInteger.valueOf(a).pow((int) Math.min(b, 64)).longValueExact();
      };
    } catch (ArithmeticException e) {
      throw new TemplateFailure("a number is too large");
    }
  }

  private static double asFloats(char operator, double a, double b) {
    return switch (operator) {
      case '+' -> a + b;
      case '-' -> a - b;
      case '*' -> a * b;
      case '/' -> a / b;
      case 'd' -> Math.floor(a / b);
      case '%' -> a - b * Math.floor(a / b);
      default -> Math.pow(a, b);
    };
  }

  /** The items that a loop or a filter sees. */
  static List<Object> items(Object value) {
    if (value instanceof Collection<?> list) {
      return new ArrayList<>(list);
    }
    if (value instanceof Map<?, ?> map) {
      return new ArrayList<>(map.keySet());
    }
    if (value instanceof String text) {
      List<Object> characters = new ArrayList<>();
      text.codePoints().forEach(c -> characters.add(Character.toString(c)));
      return characters;
    }
    if (value == null) {
      return new ArrayList<>();
    }
    throw new TemplateFailure(type(value) + " can't be iterated");
  }

  static long length(Object value) {
    if (value instanceof String text) {
      return PythonText.length(text);
    }
    if (value == null || value instanceof Collection || value instanceof Map) {
      return items(value).size();
    }
    throw new TemplateFailure(type(value) + " has no length");
  }

  /** value.name or value[key]: null, that is undefined, where there is none. */
  static Object get(Object value, Object key) {
    if (value == null) {
      throw new TemplateFailure("the value before ." + str(key) + " is undefined");
    }
    if (value instanceof Map<?, ?> map) {
      return key instanceof String ? map.get(key) : null;
    }
    if (key instanceof Long index && (value instanceof List || value instanceof String)) {
      List<Object> items = value instanceof String ? items(value) : cast(value);
      long at = index < 0 ? index + items.size() : index;
      return at >= 0 && at < items.size() ? items.get((int) at) : null;
    }
    return null;
  }

  /** value[from:to:step]; null where left out. */
  static Object slice(Object value, Object from, Object to, Object step) {
    if (!(value instanceof List) && !(value instanceof String)) {
      throw new TemplateFailure(type(value) + " can't be sliced");
    }
    List<Object> items = items(value);
    long by = step == null ? 1 : asLong(step);
    if (by == 0) {
      throw new TemplateFailure("a slice's step can't be 0");
    }
    long size = items.size();
    long start = from == null ? (by > 0 ? 0 : size - 1) : bound(asLong(from), size, by);
    long end = to == null ? (by > 0 ? size : -1) : bound(asLong(to), size, by);
    List<Object> part = new ArrayList<>();
    for (long i = start; by > 0 ? i < end : i > end; i += by) {
      part.add(items.get((int) i));
    }
    if (value instanceof String) {
      StringBuilder text = new StringBuilder();
      part.forEach(text::append);
      return text.toString();
    }
    return value instanceof Tuple ? new Tuple(part) : part;
  }

  private static long bound(long index, long size, long step) {
    long at = index < 0 ? index + size : index;
    return step > 0 ? Math.max(0, Math.min(at, size)) : Math.max(-1, Math.min(at, size - 1));
  }

  static boolean isNumber(Object value) {
    return value instanceof Long || value instanceof Double || value instanceof Boolean;
  }

  static double asDouble(Object value) {
    return value instanceof Double number ? number : asLong(value);
  }

  static long asLong(Object value) {
    if (value instanceof Boolean flag) {
      return flag ? 1 : 0;
    }
    if (value instanceof Long number) {
      return number;
    }
    throw new TemplateFailure("a whole number is needed, not " + type(value));
  }

  private static int compareNumbers(Object left, Object right) {
    return left instanceof Double || right instanceof Double
        ? Double.compare(asDouble(left) + 0.0, asDouble(right) + 0.0)
        : Long.compare(asLong(left), asLong(right));
  }

  static String type(Object value) {
    if (value == null) {
      return "an undefined value";
    }
    return value == None.NONE
        ? "None"
        : value instanceof String
            ? "a text"
            : isNumber(value)
                ? "a number"
                : value instanceof List ? "a list" : value instanceof Map ? "a mapping" : "this";
  }

  /** What it costs to read a value once, in units of an element or 16 characters. */
  static long cost(Object value) {
    if (value instanceof String text) {
      return text.length() / 16;
    }
    if (value instanceof Collection<?> list) {
      long cost = list.size();
      for (Object item : list) {
        cost += item instanceof String text ? text.length() / 16 : 0;
      }
      return cost;
    }
    return value instanceof Map<?, ?> map ? map.size() : 0;
  }

  static void checkSize(double size) {
    if (size > LARGEST) {
      throw new TemplateFailure("a value has grown beyond " + LARGEST + " elements");
    }
  }

  @SuppressWarnings("unchecked")
  private static List<Object> cast(Object list) {
    return (List<Object>) list;
  }
}
