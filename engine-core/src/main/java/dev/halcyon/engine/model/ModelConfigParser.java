package dev.halcyon.engine.model;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.IntPredicate;

/** Reads config.json by what its family says. */
final class ModelConfigParser {

  /** Keys that change what is computed in ways that no supported family knows. */
  private static final List<String> UNSUPPORTED =
      List.of("quantization_config", "compression_config", "attention_chunk_size", "text_config");

  private static final Set<String> STORED_TYPES = Set.of("float32", "float16", "bfloat16", "auto");
  private static final String FULL = "full_attention";
  private static final String SLIDING = "sliding_attention";
  private static final int DEFAULT_WINDOW = 4096;
  private static final int DEFAULT_MAX_WINDOW_LAYERS = 28;
  private static final int MAX_SIZE = 1 << 24;
  private static final int MAX_LAYERS = 1 << 12;

  private final ConfigReader config;
  private final ModelFamily family;

  private ModelConfigParser(ConfigReader config, ModelFamily family) {
    this.config = config;
    this.family = family;
  }

  static ModelConfig parse(ConfigReader config) {
    return new ModelConfigParser(config, family(config)).parse();
  }

  private static ModelFamily family(ConfigReader config) {
    Optional<List<String>> names = config.texts("architectures");
    Optional<String> modelType = config.text("model_type");
    if (names.isEmpty() && modelType.isEmpty()) {
      throw config.bad("architectures", "is absent", "one of " + ModelFamily.architectures());
    }
    if (names.isEmpty()) {
      return ModelFamily.byModelType(modelType.get())
          .orElseThrow(
              () ->
                  config.bad(
                      "model_type",
                      "is " + modelType.get(),
                      "a type of one of " + ModelFamily.architectures()));
    }
    ModelFamily family =
        names.get().stream()
            .findFirst()
            .filter(name -> names.get().size() == 1)
            .flatMap(ModelFamily::byArchitecture)
            .orElseThrow(
                () ->
                    config.bad(
                        "architectures",
                        "is " + names.get(),
                        "one of " + ModelFamily.architectures()));
    if (modelType.isPresent() && !modelType.get().equals(family.modelType())) {
      throw config.bad(
          "model_type",
          "is " + modelType.get(),
          family.modelType() + " for " + family.architecture());
    }
    return family;
  }

  private ModelConfig parse() {
    refuseUnsupported();
    int vocabSize = config.integer("vocab_size", 1, MAX_SIZE);
    int hiddenSize = config.integer("hidden_size", 1, MAX_SIZE);
    int heads = config.integer("num_attention_heads", 1, MAX_SIZE);
    int kvHeads = kvHeads(heads);
    int headDim = headDim(hiddenSize, heads);
    int maxPositions =
        config.integer("max_position_embeddings", 1, Integer.MAX_VALUE, family.maxPositions());
    List<LayerConfig> layers = layers(new RopeParser(config, family, headDim, maxPositions));
    return new ModelConfig(
        family.architecture(),
        vocabSize,
        hiddenSize,
        config.integer("intermediate_size", 1, MAX_SIZE),
        heads,
        kvHeads,
        headDim,
        contextLength(maxPositions, layers),
        family.norm().kind(),
        (float) config.positive(family.norm().epsKey(), family.norm().eps()),
        family.norm().weightOffset(),
        family.scales().embedding() ? (float) Math.sqrt(hiddenSize) : 1,
        attentionScale(headDim),
        (float) family.scales().attentionCap().read(config),
        (float) family.scales().logitScale().read(config),
        (float) family.scales().logitCap().read(config),
        family.activation().read(config),
        family.block(),
        family.qkvBias().read(config),
        family.outputBias().read(config),
        family.mlpBias().read(config),
        family.queryKeyNorm(),
        config.flag("tie_word_embeddings", family.tiedEmbeddings()),
        config.tokenIds("bos_token_id", vocabSize, family.bosIds()).stream().findFirst().orElse(-1),
        config.tokenIds("eos_token_id", vocabSize, family.endIds()),
        layers);
  }

  private void refuseUnsupported() {
    for (String key : UNSUPPORTED) {
      if (config.has(key)) {
        throw config.unsupported(key, "is not supported");
      }
    }
    for (String key : List.of("partial_rotary_factor", "rotary_pct")) {
      if (config.number(key, 0, 1) != 1) {
        throw config.bad(key, "is " + config.number(key, 0), "1 for " + family.architecture());
      }
    }
    family.only().forEach((key, json) -> config.requireOnly(key, json, family.architecture()));
    for (String key : List.of("dtype", "torch_dtype")) {
      String type = config.text(key).orElse("auto");
      if (!STORED_TYPES.contains(type)) {
        throw config.bad(key, "is " + type, "float32, float16 or bfloat16");
      }
    }
  }

  private int kvHeads(int heads) {
    // Absent means the family's default, but an explicit null means as many as query heads.
    boolean likeHeads = config.mentions("num_key_value_heads") || family.kvHeads() == 0;
    int absent = likeHeads ? heads : family.kvHeads();
    int kvHeads = config.integer("num_key_value_heads", 1, MAX_SIZE, absent);
    if (heads % kvHeads != 0) {
      throw config.bad(
          "num_key_value_heads", "is " + kvHeads, "a divisor of num_attention_heads, " + heads);
    }
    return kvHeads;
  }

  private int headDim(int hiddenSize, int heads) {
    int headDim = config.integer("head_dim", 1, MAX_SIZE, family.headDim());
    if (headDim == 0) {
      if (hiddenSize % heads != 0) {
        throw config.bad(
            "hidden_size",
            "is " + hiddenSize,
            "a multiple of num_attention_heads, " + heads + ", as there is no head_dim");
      }
      headDim = hiddenSize / heads;
    }
    if (headDim % 2 != 0) {
      throw config.bad(
          "head_dim", "is " + headDim, "an even number, as dimensions rotate in pairs");
    }
    if (3L * heads * headDim > Integer.MAX_VALUE) {
      throw config.bad("head_dim", "is " + headDim, "less for " + heads + " attention heads");
    }
    return headDim;
  }

  private float attentionScale(int headDim) {
    double scalar = family.scales().query().read(config);
    return (float) (1 / Math.sqrt(scalar == 0 ? headDim : scalar));
  }

  private List<LayerConfig> layers(RopeParser ropes) {
    int count = config.integer("num_hidden_layers", 1, MAX_LAYERS);
    int window = window();
    List<String> types = layerTypes(count, window);
    List<LayerConfig> layers = new ArrayList<>();
    for (String type : types) {
      boolean sliding = type.equals(SLIDING);
      layers.add(new LayerConfig(sliding ? window : 0, ropes.parse(type, sliding)));
    }
    return layers;
  }

  /** The sliding window in use; 0 for none. */
  private int window() {
    boolean switchedOff =
        switch (family.windows()) {
          case NONE -> true;
          case EVERY_LAYER, ALL_BUT_EVERY_NTH -> false;
          case UPPER_LAYERS -> !config.flag("use_sliding_window", false);
        };
    boolean none = config.mentions("sliding_window") && !config.has("sliding_window");
    if (none && family.windows() == WindowRule.ALL_BUT_EVERY_NTH) {
      throw config.bad("sliding_window", "is null", "a length for " + family.architecture());
    }
    if (switchedOff || none) {
      return 0;
    }
    return config.integer("sliding_window", 1, Integer.MAX_VALUE, DEFAULT_WINDOW);
  }

  private List<String> layerTypes(int count, int window) {
    IntPredicate slides =
        switch (family.windows()) {
          case NONE -> layer -> false;
          case EVERY_LAYER -> layer -> true;
          case UPPER_LAYERS -> {
            int first =
                config.integer(
                    "max_window_layers", 0, Integer.MAX_VALUE, DEFAULT_MAX_WINDOW_LAYERS);
            yield layer -> layer >= first;
          }
          case ALL_BUT_EVERY_NTH -> {
            int n =
                config.integer("sliding_window_pattern", 1, Integer.MAX_VALUE, family.fullEvery());
            yield layer -> (layer + 1) % n != 0;
          }
        };
    List<String> types = new ArrayList<>();
    for (int layer = 0; layer < count; layer++) {
      types.add(window > 0 && slides.test(layer) ? SLIDING : FULL);
    }
    List<String> written = config.texts("layer_types").orElse(types);
    checkLayerTypes(written, count, window);
    return written;
  }

  private void checkLayerTypes(List<String> written, int count, int window) {
    if (written.size() != count) {
      throw config.bad(
          "layer_types",
          "has " + written.size() + " entries",
          "num_hidden_layers, " + count + ", of them");
    }
    for (String type : written) {
      if (!type.equals(FULL) && !type.equals(SLIDING)) {
        throw config.bad("layer_types", "has " + type, FULL + " or " + SLIDING);
      }
      if (type.equals(SLIDING) && window == 0) {
        throw config.bad("layer_types", "has " + type, FULL + " alone, as there is no window");
      }
      if (type.equals(FULL) && window > 0 && family.windows() == WindowRule.EVERY_LAYER) {
        throw config.bad("layer_types", "has " + type, SLIDING + " alone");
      }
    }
  }

  private int contextLength(int maxPositions, List<LayerConfig> layers) {
    long length = maxPositions;
    for (LayerConfig layer : layers) {
      if (layer.rope() != null && family.rope().scalingExtends()) {
        length = Math.max(length, layer.rope().scaling().contextLength());
      }
    }
    return (int) Math.min(length, Integer.MAX_VALUE);
  }
}
