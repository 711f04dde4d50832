package dev.halcyon.engine.model;

import dev.halcyon.engine.backend.Activation;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;

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
        (float) config.positive("rms_norm_eps", family.normEps()),
        0,
        1,
        (float) (1 / Math.sqrt(headDim)),
        0,
        1,
        0,
        activation(),
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
    if (config.number("partial_rotary_factor", 0, 1) != 1) {
      throw config.bad(
          "partial_rotary_factor",
          "is " + config.number("partial_rotary_factor", 0),
          "1 for " + family.architecture());
    }
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

  private Activation activation() {
    String name = config.text("hidden_act").orElse("silu");
    return switch (name) {
      case "silu", "swish" -> Activation.SILU;
      case "gelu" -> Activation.GELU;
      case "gelu_pytorch_tanh", "gelu_new" -> Activation.GELU_TANH;
      default ->
          throw config.bad(
              "hidden_act", "is " + name, "one of silu, gelu, gelu_new, gelu_pytorch_tanh");
    };
  }

  private List<LayerConfig> layers(RopeParser ropes) {
    int count = config.integer("num_hidden_layers", 1, MAX_LAYERS);
    int window = window();
    List<String> types = layerTypes(count, window);
    List<LayerConfig> layers = new ArrayList<>();
    for (String type : types) {
      layers.add(new LayerConfig(type.equals(SLIDING) ? window : 0, ropes.parse(type)));
    }
    return layers;
  }

  /** The sliding window in use; 0 for none. */
  private int window() {
    boolean switchedOff =
        switch (family.windows()) {
          case NONE -> true;
          case EVERY_LAYER -> false;
          case UPPER_LAYERS -> !config.flag("use_sliding_window", false);
        };
    if (switchedOff || (config.mentions("sliding_window") && !config.has("sliding_window"))) {
      return 0;
    }
    return config.integer("sliding_window", 1, Integer.MAX_VALUE, DEFAULT_WINDOW);
  }

  private List<String> layerTypes(int count, int window) {
    List<String> types = new ArrayList<>();
    int firstSliding =
        switch (family.windows()) {
          case NONE -> count;
          case EVERY_LAYER -> 0;
          case UPPER_LAYERS ->
              config.integer("max_window_layers", 0, Integer.MAX_VALUE, DEFAULT_MAX_WINDOW_LAYERS);
        };
    for (int layer = 0; layer < count; layer++) {
      types.add(window > 0 && layer >= firstSliding ? SLIDING : FULL);
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

  private static int contextLength(int maxPositions, List<LayerConfig> layers) {
    long length = maxPositions;
    for (LayerConfig layer : layers) {
      length = Math.max(length, layer.rope().scaling().contextLength());
    }
    return (int) Math.min(length, Integer.MAX_VALUE);
  }
}
