package dev.halcyon.engine.tokenizer;

import com.hubspot.jinjava.el.ext.NamedParameter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The arguments of a call in a template.
 *
 * @param list the ones by position
 * @param named the ones by name
 */
record Arguments(List<Object> list, Map<String, Object> named) {

  static final Arguments NONE = new Arguments(List.of(), Map.of());

  static Arguments of(List<Object> values) {
    List<Object> list = new ArrayList<>();
    Map<String, Object> named = new LinkedHashMap<>();
    for (Object value : values) {
      if (value instanceof NamedParameter parameter) {
        named.put(parameter.getName(), parameter.getValue());
      } else {
        list.add(value);
      }
    }
    return new Arguments(list, named);
  }

  int size() {
    return list.size() + named.size();
  }

  /** An argument by position or name. */
  Object get(int index, String name, Object otherwise) {
    if (index < list.size()) {
      return list.get(index);
    }
    return named.getOrDefault(name, otherwise);
  }

  String text(int index, String name, String otherwise) {
    Object value = get(index, name, otherwise);
    if (value == null || value == PythonValues.None.NONE) {
      return otherwise;
    }
    if (value instanceof String text) {
      return text;
    }
    throw new TemplateFailure("argument " + name + " must be a text");
  }

  long number(int index, String name, long otherwise) {
    return PythonValues.asLong(get(index, name, otherwise));
  }

  boolean flag(int index, String name, boolean otherwise) {
    return PythonValues.truth(get(index, name, otherwise));
  }

  /** The arguments behind the first ones. */
  Arguments from(int index) {
    return new Arguments(list.subList(Math.min(index, list.size()), list.size()), named);
  }

  long cost() {
    return list.stream().mapToLong(PythonValues::cost).sum();
  }
}
