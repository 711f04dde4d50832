package dev.halcyon.engine.model;

import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;

/** Reads the rotary embedding of a config.json in either form. */
final class RopeParser {

  private static final String CLASSIC = "rope_scaling";
  private static final String PARAMETERS = "rope_parameters";
  private static final String ORIGINAL = "original_max_position_embeddings";

  /** "finetuned" is a remark of the first YaRN checkpoints; nothing reads it. */
  private static final Set<String> COMMON =
      Set.of("rope_type", "type", "rope_theta", "partial_rotary_factor", "finetuned");

  private final ConfigReader config;
  private final ModelFamily family;
  private final int headDim;
  private final int maxPositions;

  RopeParser(ConfigReader config, ModelFamily family, int headDim, int maxPositions) {
    this.config = config;
    this.family = family;
    this.headDim = headDim;
    this.maxPositions = maxPositions;
    if (config.has(CLASSIC) && config.has(PARAMETERS)) {
      throw config.unsupported(
          CLASSIC, "stands beside " + PARAMETERS + ", of which it is the older form; keep one");
    }
  }

  /**
   * The rotary embedding of layers of a type.
   *
   * @return null if they have none
   */
  RopeConfig parse(String layerType, boolean sliding) {
    if (!sliding && !family.rope().fullLayers()) {
      return null;
    }
    boolean local = sliding && family.rope().localRotation();
    double theta =
        local
            ? config.positive("rope_local_base_freq", family.rope().localTheta())
            : config.positive("rope_theta", family.rope().theta());
    Optional<ConfigReader> written =
        family.rope().localRotation() ? ofLayerType(layerType, local) : written(layerType);
    if (written.isEmpty()) {
      return rope(theta, new RopeScaling.None());
    }
    ConfigReader rope = written.get();
    if (rope.number("partial_rotary_factor", 0, 1) != 1) {
      throw rope.unsupported(
          "partial_rotary_factor", "is not supported for " + family.architecture());
    }
    theta = rope.positive("rope_theta", theta);
    return rope(theta, scaling(rope, theta));
  }

  private RopeConfig rope(double theta, RopeScaling scaling) {
    return new RopeConfig(theta, headDim, family.rope().layout(), scaling);
  }

  /** The parameters of a family whose layers all rotate alike, unless the config says otherwise. */
  private Optional<ConfigReader> written(String layerType) {
    Optional<ConfigReader> written = config.child(config.has(CLASSIC) ? CLASSIC : PARAMETERS);
    if (written.isPresent() && written.get().holdsObjectsOnly()) {
      ConfigReader perType = written.get();
      written = perType.child(layerType);
      if (written.isEmpty()) {
        throw perType.bad(layerType, "is absent", "the parameters of layers of this type");
      }
    }
    return written;
  }

  /**
   * The parameters of a family whose layers with a window have a rotation of their own: by type of
   * layer, or in the older form for the other layers alone.
   */
  private Optional<ConfigReader> ofLayerType(String layerType, boolean local) {
    if (config.has(CLASSIC)) {
      return local ? Optional.empty() : config.child(CLASSIC);
    }
    Optional<ConfigReader> written = config.child(PARAMETERS);
    if (written.isPresent() && !written.get().holdsObjectsOnly()) {
      throw config.unsupported(
          PARAMETERS,
          "must hold the parameters of each type of layer for " + family.architecture());
    }
    return written.flatMap(perType -> perType.child(layerType));
  }

  private RopeScaling scaling(ConfigReader rope, double theta) {
    String typeKey = rope.has("rope_type") ? "rope_type" : "type";
    String type = rope.text(typeKey).orElse("default");
    return switch (type) {
      case "default" -> {
        allow(rope);
        yield new RopeScaling.None();
      }
      case "linear" -> {
        allow(rope, "factor", ORIGINAL);
        yield new RopeScaling.Linear(rope.number("factor", 1), original(rope));
      }
      case "dynamic" -> dynamic(rope);
      case "llama3" -> llama3(rope);
      case "yarn" -> yarn(rope, theta);
      default -> throw rope.bad(typeKey, "is " + type, "default, linear, dynamic, llama3 or yarn");
    };
  }

  private RopeScaling dynamic(ConfigReader rope) {
    allow(rope, "factor", ORIGINAL);
    if (headDim <= 2) {
      throw rope.unsupported("factor", "of dynamic scaling needs a head_dim above 2");
    }
    // Transformers measures the stretch from max_position_embeddings, whatever the original length
    // says.
    return new RopeScaling.Dynamic(rope.number("factor", 1), maxPositions);
  }

  private RopeScaling llama3(ConfigReader rope) {
    allow(rope, "factor", "low_freq_factor", "high_freq_factor", ORIGINAL);
    double low = rope.positive("low_freq_factor");
    double high = rope.positive("high_freq_factor");
    if (high <= low) {
      throw rope.bad("high_freq_factor", "is " + high, "more than low_freq_factor, " + low);
    }
    return new RopeScaling.Llama3(rope.number("factor", 1), low, high, original(rope));
  }

  private RopeScaling yarn(ConfigReader rope, double theta) {
    allow(
        rope,
        "factor",
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "truncate",
        ORIGINAL);
    if (theta <= 1) {
      throw rope.bad("rope_theta", "is " + theta, "more than 1 for yarn");
    }
    double factor = rope.number("factor", 1);
    double betaFast = rope.positive("beta_fast", 32);
    double betaSlow = rope.positive("beta_slow", 1);
    if (betaFast < betaSlow) {
      throw rope.bad("beta_fast", "is " + betaFast, "at least beta_slow, " + betaSlow);
    }
    return new RopeScaling.Yarn(
        factor,
        original(rope),
        rope.positive("attention_factor", yarnAttention(rope, factor)),
        betaFast,
        betaSlow,
        rope.flag("truncate", true));
  }

  private static double yarnAttention(ConfigReader rope, double factor) {
    double mscale = rope.number("mscale", 0, 0);
    double mscaleAllDim = rope.number("mscale_all_dim", 0, 0);
    if (mscale != 0 && mscaleAllDim != 0) {
      return yarnScale(factor, mscale) / yarnScale(factor, mscaleAllDim);
    }
    return yarnScale(factor, 1);
  }

  private static double yarnScale(double factor, double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * Math.log(factor) + 1;
  }

  private int original(ConfigReader rope) {
    // Some families write the original length beside the parameters, where it takes precedence.
    ConfigReader owner = config.has(ORIGINAL) ? config : rope;
    return owner.integer(ORIGINAL, 1, Integer.MAX_VALUE, maxPositions);
  }

  private static void allow(ConfigReader rope, String... keys) {
    Set<String> allowed = new TreeSet<>(COMMON);
    allowed.addAll(Set.of(keys));
    rope.allowOnly(allowed);
  }
}
