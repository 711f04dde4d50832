package dev.halcyon.engine.model;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.ModelLoadException;
import dev.halcyon.engine.weights.StrictJson;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * Typed reads of a JSON object's values, each checked where it is read, so that a wrong one is
 * refused by its name. A null counts as absent, as it does in transformers wherever a key has a
 * default.
 */
final class ConfigReader {

  private final ObjectNode object;
  private final String what;
  private final String path;

  private ConfigReader(ObjectNode object, String what, String path) {
    this.object = object;
    this.what = what;
    this.path = path;
  }

  static ConfigReader of(byte[] json, String what) {
    return new ConfigReader(StrictJson.parseObject(json, what), what, "");
  }

  /** Whether the key is there with a value other than null. */
  boolean has(String key) {
    return object.hasNonNull(key);
  }

  /** Whether the key is there, be it with null. */
  boolean mentions(String key) {
    return object.has(key);
  }

  int integer(String key, int min, int max) {
    if (!has(key)) {
      throw bad(key, "is absent", "an integer from " + min + " to " + max);
    }
    JsonNode node = object.get(key);
    double value = node.doubleValue();
    // Some writers put 8192.0 where 8192 is meant.
    if (!node.isNumber() || value != Math.rint(value) || value < min || value > max) {
      throw bad(key, "is " + node, "an integer from " + min + " to " + max);
    }
    return (int) value;
  }

  int integer(String key, int min, int max, int absent) {
    return has(key) ? integer(key, min, max) : absent;
  }

  /** A finite number of at least {@code min}. */
  double number(String key, double min) {
    return finite(key, min, "a finite number of at least " + min);
  }

  double number(String key, double min, double absent) {
    return has(key) ? number(key, min) : absent;
  }

  /** A finite number above 0. */
  double positive(String key) {
    return finite(key, Double.MIN_VALUE, "a finite number above 0");
  }

  double positive(String key, double absent) {
    return has(key) ? positive(key) : absent;
  }

  private double finite(String key, double min, String expected) {
    if (!has(key)) {
      throw bad(key, "is absent", expected);
    }
    JsonNode node = object.get(key);
    double value = node.doubleValue();
    if (!node.isNumber() || !Double.isFinite(value) || value < min) {
      throw bad(key, "is " + node.asText(), expected);
    }
    return value;
  }

  boolean flag(String key, boolean absent) {
    if (!has(key)) {
      return absent;
    }
    if (!object.get(key).isBoolean()) {
      throw bad(key, "is " + object.get(key), "true or false");
    }
    return object.get(key).booleanValue();
  }

  Optional<String> text(String key) {
    if (!has(key)) {
      return Optional.empty();
    }
    if (!object.get(key).isTextual()) {
      throw bad(key, "is " + object.get(key), "a string");
    }
    return Optional.of(object.get(key).textValue());
  }

  Optional<List<String>> texts(String key) {
    if (!has(key)) {
      return Optional.empty();
    }
    List<String> texts = new ArrayList<>();
    boolean sound = object.get(key).isArray();
    for (JsonNode item : object.get(key)) {
      sound &= item.isTextual();
      texts.add(item.asText());
    }
    if (!sound) {
      throw bad(key, "is " + object.get(key), "a list of strings");
    }
    return Optional.of(texts);
  }

  /** Token ids, written as one integer or as a list of them; empty if null or absent. */
  List<Integer> tokenIds(String key, int vocabSize) {
    return tokenIds(key, vocabSize, List.of());
  }

  /** Token ids, written as one integer or as a list of them; empty if null. */
  List<Integer> tokenIds(String key, int vocabSize, List<Integer> absent) {
    if (!mentions(key)) {
      return absent.stream().filter(id -> id < vocabSize).toList();
    }
    List<Integer> ids = new ArrayList<>();
    if (!has(key)) {
      return ids;
    }
    JsonNode value = object.get(key);
    Iterable<JsonNode> items = value.isArray() ? value : List.of(value);
    for (JsonNode item : items) {
      if (!item.canConvertToInt()
          || !item.isIntegralNumber()
          || item.intValue() < 0
          || item.intValue() >= vocabSize) {
        throw bad(key, "is " + value, "token ids from 0 to " + (vocabSize - 1));
      }
      if (!ids.contains(item.intValue())) {
        ids.add(item.intValue());
      }
    }
    return ids;
  }

  Optional<ConfigReader> child(String key) {
    if (!has(key)) {
      return Optional.empty();
    }
    if (object.get(key) instanceof ObjectNode child) {
      return Optional.of(new ConfigReader(child, what, path + key + "."));
    }
    throw bad(key, "is " + object.get(key), "an object");
  }

  /** Whether there are values, and all of them are objects. */
  boolean holdsObjectsOnly() {
    return !object.isEmpty() && object.valueStream().allMatch(JsonNode::isObject);
  }

  /**
   * Refuses every value but one.
   *
   * @param json the value as JSON; "null" to refuse all
   */
  void requireOnly(String key, String json, String architecture) {
    if (has(key) && !object.get(key).toString().equals(json)) {
      throw bad(key, "is " + object.get(key), json + " for " + architecture);
    }
  }

  void allowOnly(Set<String> keys) {
    object
        .fieldNames()
        .forEachRemaining(
            key -> {
              if (!keys.contains(key) && has(key)) {
                throw new ModelLoadException(
                    what + ": " + path + key + " is not supported here, expected one of " + keys);
              }
            });
  }

  ModelLoadException bad(String key, String found, String expected) {
    return new ModelLoadException(
        what + ": " + path + key + " " + found + ", expected " + expected);
  }

  ModelLoadException unsupported(String key, String problem) {
    return new ModelLoadException(what + ": " + path + key + " " + problem);
  }
}
