package dev.halcyon.engine;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/** The checks of {@link SamplingParams}. Null passes where a parameter may be left unset. */
final class SamplingChecks {

  private SamplingChecks() {}

  /** The nearest float, but never 0 for a number that is not: 0 has a meaning of its own. */
  static float toFloat(double value) {
    float nearest = (float) value;
    if (nearest == 0 && value != 0) {
      return value > 0 ? Float.MIN_VALUE : -Float.MIN_VALUE;
    }
    return nearest + 0.0f; // -0 is 0
  }

  static void that(String name, Float value, Predicate<Float> allowed, String expected) {
    if (value != null && !allowed.test(value)) {
      throw refused(name, value, expected);
    }
  }

  static void inRange(String name, Integer value, int low, int high) {
    if (value != null && (value < low || value > high)) {
      String most = low == high ? "" + low : "a number from " + low + " to " + high;
      throw refused(name, value, high == Integer.MAX_VALUE ? "at least " + low : most);
    }
  }

  static void minTokens(int value, int maxTokens) {
    if (value < 0 || value > maxTokens) {
      throw refused("minTokens", value, "a number from 0 to maxTokens, " + maxTokens);
    }
  }

  static void atMostVocab(String name, Integer value, int vocabSize) {
    if (value != null && value > vocabSize) {
      throw refused(name, value, "at most the vocabulary's size, " + vocabSize);
    }
  }

  static void knownIds(String name, Collection<Integer> ids, int vocabSize) {
    for (int id : ids) {
      if (id >= vocabSize) {
        throw refused(name, "token id " + id, "ids below the vocabulary's size, " + vocabSize);
      }
    }
  }

  static List<String> listOf(String name, String... values) {
    if (values == null) {
      throw refused(name, null, "texts that are not empty");
    }
    return Arrays.asList(values);
  }

  static List<String> copyOfTexts(String name, Collection<String> texts) {
    String expected = "texts that are not empty";
    if (texts == null) {
      throw refused(name, null, expected + " (an empty list for none)");
    }
    for (String text : texts) {
      if (text == null || text.isEmpty()) {
        throw refused(name, text == null ? "a null" : "an empty text", expected);
      }
    }
    return List.copyOf(texts);
  }

  static List<Integer> copyOfIds(String name, Collection<Integer> ids) {
    if (ids == null) {
      throw refused(name, null, "token ids (an empty list for none)");
    }
    for (Integer id : ids) {
      requireId(name, id);
    }
    return List.copyOf(new ArrayList<>(ids));
  }

  static Map<Integer, Float> copyOfBias(String name, Map<Integer, Float> bias) {
    if (bias == null) {
      throw refused(name, null, "token ids with numbers (an empty map for none)");
    }
    Map<Integer, Float> copy = new LinkedHashMap<>();
    bias.forEach(
        (id, value) -> {
          requireId(name, id);
          if (value == null || !(value < Float.POSITIVE_INFINITY)) {
            throw refused(name, value + " for token " + id, "finite numbers, or negative infinity");
          }
          copy.put(id, value);
        });
    return Map.copyOf(copy);
  }

  private static void requireId(String name, Integer id) {
    if (id == null || id < 0) {
      throw refused(name, "token id " + id, "ids of at least 0");
    }
  }

  private static IllegalArgumentException refused(String name, Object given, String expected) {
    return new IllegalArgumentException(name + " is " + given + ", expected " + expected);
  }
}
