package dev.halcyon.engine.tokenizer;

import java.util.AbstractMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The variable {@code loop} within a for loop. */
final class TemplateLoop extends AbstractMap<String, Object> {

  private final List<Object> items;
  private final long depth;
  private int at;

  TemplateLoop(List<Object> items, long depth) {
    this.items = items;
    this.depth = depth;
  }

  void moveTo(int index) {
    at = index;
  }

  long index0() {
    return at;
  }

  long depth() {
    return depth;
  }

  @Override
  public Object get(Object key) {
    long size = items.size();
    return switch (String.valueOf(key)) {
      case "index" -> at + 1L;
      case "index0" -> (long) at;
      case "revindex" -> size - at;
      case "revindex0" -> size - at - 1;
      case "first" -> at == 0;
      case "last" -> at == size - 1;
      case "length" -> size;
      case "depth" -> depth;
      case "depth0" -> depth - 1;
      case "previtem" -> at > 0 ? items.get(at - 1) : null;
      case "nextitem" -> at + 1 < size ? items.get(at + 1) : null;
      default -> null;
    };
  }

  @Override
  public Set<Map.Entry<String, Object>> entrySet() {
    Map<String, Object> shown = new LinkedHashMap<>();
    shown.put("index", get("index"));
    shown.put("length", get("length"));
    return shown.entrySet();
  }
}
