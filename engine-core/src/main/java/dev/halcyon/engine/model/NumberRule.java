package dev.halcyon.engine.model;

/**
 * A number above 0 that a family takes for granted or reads from its config.
 *
 * @param key the key to read; null where the family leaves no choice
 * @param otherwise the value without a key, or where the key is absent
 * @param optional whether a null written down means 0, for none
 */
record NumberRule(String key, double otherwise, boolean optional) {

  static NumberRule fixed(double value) {
    return new NumberRule(null, value, false);
  }

  static NumberRule key(String key, double absent) {
    return new NumberRule(key, absent, false);
  }

  /** A cap that a null switches off. */
  static NumberRule cap(String key, double absent) {
    return new NumberRule(key, absent, true);
  }

  double read(ConfigReader config) {
    if (key == null) {
      return otherwise;
    }
    boolean none = optional && config.mentions(key) && !config.has(key);
    return none ? 0 : config.positive(key, otherwise);
  }
}
