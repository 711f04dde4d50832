package dev.halcyon.engine.model;

/**
 * Whether a family has a part: always, never, or as a key of its config says.
 *
 * @param key the key to read; null where the family leaves no choice
 * @param otherwise the value without a key, or where the key is absent
 */
record FlagRule(String key, boolean otherwise) {

  static final FlagRule ALWAYS = new FlagRule(null, true);
  static final FlagRule NEVER = new FlagRule(null, false);

  static FlagRule key(String key) {
    return new FlagRule(key, false);
  }

  boolean read(ConfigReader config) {
    return key == null ? otherwise : config.flag(key, otherwise);
  }
}
