package dev.halcyon.engine.tokenizer;

import com.hubspot.jinjava.objects.Namespace;
import com.hubspot.jinjava.objects.date.InvalidDateFormatException;
import com.hubspot.jinjava.objects.date.StrftimeFormatter;
import dev.halcyon.engine.tokenizer.PythonValues.Tuple;
import java.time.ZonedDateTime;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The functions that templates call, and the methods of texts, mappings and lists. */
final class TemplateMethods {

  private static final int LONGEST_RANGE = 100_000;

  private TemplateMethods() {}

  static Object function(String name, Arguments arguments) {
    return switch (name) {
      case "raise_exception" ->
          throw TemplateFailure.raisedByTemplate(PythonValues.str(arguments.get(0, "message", "")));
      case "namespace" -> new Namespace(mapping(arguments));
      case "dict" -> mapping(arguments);
      case "range" -> range(arguments);
      case "strftime_now" -> now(arguments.text(0, "format", ""));
      default -> throw new TemplateFailure("there is no function '" + name + "'");
    };
  }

  private static Map<String, Object> mapping(Arguments arguments) {
    Map<String, Object> map = new LinkedHashMap<>();
    if (arguments.get(0, "", null) instanceof Map<?, ?> first) {
      first.forEach((key, value) -> map.put((String) key, value));
    }
    map.putAll(arguments.named());
    return map;
  }

  private static List<Object> range(Arguments arguments) {
    boolean one = arguments.size() == 1;
    long start = one ? 0 : arguments.number(0, "start", 0);
    long stop = arguments.number(one ? 0 : 1, "stop", 0);
    long step = arguments.number(2, "step", 1);
    if (step == 0) {
      throw new TemplateFailure("range's step can't be 0");
    }
    List<Object> numbers = new ArrayList<>();
    for (long i = start; step > 0 ? i < stop : i > stop; i += step) {
      if (numbers.size() == LONGEST_RANGE) {
        throw new TemplateFailure("range has more than " + LONGEST_RANGE + " numbers");
      }
      numbers.add(i);
    }
    return numbers;
  }

  private static String now(String format) {
    ZonedDateTime now = ZonedDateTime.now(TemplateState.current().clock);
    try {
      return StrftimeFormatter.format(now, format, Locale.ENGLISH);
    } catch (InvalidDateFormatException e) {
      throw new TemplateFailure("strftime_now: " + e.getMessage());
    }
  }

  static Object call(Object value, String name, Arguments arguments) {
    if (value instanceof String text) {
      return ofText(text, name, arguments);
    }
    if (value instanceof TemplateLoop loop && name.equals("cycle")) {
      List<Object> values = arguments.list();
      return values.get((int) (loop.index0() % values.size()));
    }
    if (value instanceof Map<?, ?> map) {
      return ofMapping(map, name, arguments);
    }
    if (value instanceof List<?> list) {
      return switch (name) {
        case "index" -> position(list, arguments.get(0, "value", null));
        case "count" ->
            list.stream()
                .filter(item -> PythonValues.equal(item, arguments.get(0, "value", null)))
                .count();
        case "copy" -> new ArrayList<Object>(list);
        default -> throw noMethod("a list", name);
      };
    }
    throw noMethod(PythonValues.type(value), name);
  }

  private static long position(List<?> list, Object value) {
    for (int i = 0; i < list.size(); i++) {
      if (PythonValues.equal(list.get(i), value)) {
        return i;
      }
    }
    throw new TemplateFailure(PythonValues.repr(value) + " is not in the list");
  }

  private static Object ofMapping(Map<?, ?> map, String name, Arguments arguments) {
    return switch (name) {
      case "get" -> {
        Object key = arguments.get(0, "key", null);
        Object found = key instanceof String ? map.get(key) : null;
        yield found == null ? arguments.get(1, "default", PythonValues.None.NONE) : found;
      }
      case "keys" -> new ArrayList<Object>(map.keySet());
      case "values" -> new ArrayList<Object>(map.values());
      case "items" -> items(map);
      case "copy" -> new LinkedHashMap<Object, Object>(map);
      default -> throw noMethod("a mapping", name);
    };
  }

  static List<Object> items(Map<?, ?> map) {
    List<Object> items = new ArrayList<>();
    for (Map.Entry<?, ?> entry : map.entrySet()) {
      List<Object> pair = new ArrayList<>();
      pair.add(entry.getKey());
      pair.add(entry.getValue());
      items.add(new Tuple(pair));
    }
    return items;
  }

  private static Object ofText(String text, String name, Arguments arguments) {
    return switch (name) {
      case "upper" -> text.toUpperCase(Locale.ROOT);
      case "lower" -> text.toLowerCase(Locale.ROOT);
      case "strip" -> PythonText.strip(text, arguments.text(0, "chars", null), true, true);
      case "lstrip" -> PythonText.strip(text, arguments.text(0, "chars", null), true, false);
      case "rstrip" -> PythonText.strip(text, arguments.text(0, "chars", null), false, true);
      case "split", "rsplit" -> split(text, name, arguments);
      case "splitlines" -> PythonText.lines(text);
      case "startswith" -> hasAffix(text, arguments, true);
      case "endswith" -> hasAffix(text, arguments, false);
      case "replace" -> replace(text, arguments);
      case "find" -> find(text, text.indexOf(arguments.text(0, "sub", "")));
      case "rfind" -> find(text, text.lastIndexOf(arguments.text(0, "sub", "")));
      case "count" -> occurrences(text, arguments.text(0, "sub", ""));
      case "join" -> join(text, PythonValues.items(arguments.get(0, "iterable", null)));
      case "title" -> PythonText.title(text);
      case "capitalize" -> PythonText.capitalize(text);
      case "isdigit" -> !text.isEmpty() && text.codePoints().allMatch(Character::isDigit);
      case "isalpha" -> !text.isEmpty() && text.codePoints().allMatch(Character::isLetter);
      case "isalnum" -> !text.isEmpty() && text.codePoints().allMatch(Character::isLetterOrDigit);
      case "isspace" -> !text.isEmpty() && text.codePoints().allMatch(PythonText::isSpace);
      case "islower" -> text.equals(text.toLowerCase(Locale.ROOT)) && hasCase(text);
      case "isupper" -> text.equals(text.toUpperCase(Locale.ROOT)) && hasCase(text);
      case "removeprefix" -> {
        String prefix = arguments.text(0, "prefix", "");
        yield text.startsWith(prefix) ? text.substring(prefix.length()) : text;
      }
      case "removesuffix" -> {
        String suffix = arguments.text(0, "suffix", "");
        yield text.endsWith(suffix) ? text.substring(0, text.length() - suffix.length()) : text;
      }
      default -> throw noMethod("a text", name);
    };
  }

  private static boolean hasCase(String text) {
    return text.codePoints().anyMatch(c -> Character.isUpperCase(c) || Character.isLowerCase(c));
  }

  private static List<Object> split(String text, String name, Arguments arguments) {
    String separator = arguments.text(0, "sep", null);
    long limit = arguments.number(1, "maxsplit", -1);
    if (separator != null && separator.isEmpty()) {
      throw new TemplateFailure("split needs a separator that is not empty");
    }
    if (separator == null && name.equals("rsplit") && limit >= 0) {
      throw new TemplateFailure("rsplit with a limit needs a separator");
    }
    return separator != null && name.equals("rsplit")
        ? PythonText.splitRight(text, separator, limit)
        : PythonText.split(text, separator, limit);
  }

  private static boolean hasAffix(String text, Arguments arguments, boolean prefix) {
    Object affix = arguments.get(0, "prefix", "");
    List<Object> affixes = affix instanceof Tuple tuple ? tuple : List.of(PythonValues.str(affix));
    return affixes.stream()
        .map(PythonValues::str)
        .anyMatch(each -> prefix ? text.startsWith(each) : text.endsWith(each));
  }

  static String replace(String text, Arguments arguments) {
    String from = arguments.text(0, "old", "");
    String to = arguments.text(1, "new", "");
    PythonValues.checkSize(text.length() + (double) occurrences(text, from) * to.length());
    return PythonText.replace(text, from, to, arguments.number(2, "count", -1));
  }

  private static long occurrences(String text, String part) {
    if (part.isEmpty()) {
      return PythonText.length(text) + 1L;
    }
    long count = 0;
    for (int at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + part.length())) {
      count++;
    }
    return count;
  }

  private static long find(String text, int index) {
    return index < 0 ? -1 : text.codePointCount(0, index);
  }

  static String join(String separator, List<Object> items) {
    StringBuilder joined = new StringBuilder();
    String before = "";
    for (Object item : items) {
      joined.append(before).append(PythonValues.str(item));
      PythonValues.checkSize(joined.length());
      before = separator;
    }
    return joined.toString();
  }

  private static TemplateFailure noMethod(String type, String name) {
    return new TemplateFailure(type + " has no method '" + name + "' that a template may call");
  }
}
