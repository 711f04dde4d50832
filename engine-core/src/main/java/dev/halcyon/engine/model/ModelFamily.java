package dev.halcyon.engine.model;

import java.util.List;
import java.util.Optional;

/**
 * How a family of models writes its config.json: what it takes for granted, and the values of the
 * keys that it leaves out (those of the family's configuration class in Hugging Face transformers).
 *
 * @param architecture the name in "architectures"
 * @param modelType the name in "model_type"
 * @param kvHeads num_key_value_heads if left out; 0 for as many as query heads
 * @param headDim head_dim if left out; 0 for hidden_size / num_attention_heads
 * @param maxPositions max_position_embeddings if left out
 * @param normEps rms_norm_eps if left out
 * @param ropeTheta rope_theta if left out
 * @param tiedEmbeddings tie_word_embeddings if left out
 * @param bosIds bos_token_id if left out
 * @param endIds eos_token_id if left out
 * @param qkvBias whether queries, keys and values have biases
 * @param outputBias whether attention's output projection has a bias
 * @param mlpBias whether the feed-forward projections have biases
 * @param queryKeyNorm whether heads of queries and keys are normalised
 * @param windows which layers have a sliding window
 */
record ModelFamily(
    String architecture,
    String modelType,
    int kvHeads,
    int headDim,
    int maxPositions,
    double normEps,
    double ropeTheta,
    boolean tiedEmbeddings,
    List<Integer> bosIds,
    List<Integer> endIds,
    FlagRule qkvBias,
    FlagRule outputBias,
    FlagRule mlpBias,
    boolean queryKeyNorm,
    WindowRule windows) {

  private static final FlagRule ATTENTION_BIAS = FlagRule.key("attention_bias");

  private static final ModelFamily LLAMA =
      new ModelFamily(
          "LlamaForCausalLM",
          "llama",
          0,
          0,
          2048,
          1e-6,
          10000,
          false,
          List.of(1),
          List.of(2),
          ATTENTION_BIAS,
          ATTENTION_BIAS,
          FlagRule.key("mlp_bias"),
          false,
          WindowRule.NONE);

  private static final ModelFamily MISTRAL =
      new ModelFamily(
          "MistralForCausalLM",
          "mistral",
          8,
          0,
          131072,
          1e-6,
          10000,
          false,
          List.of(1),
          List.of(2),
          FlagRule.NEVER,
          FlagRule.NEVER,
          FlagRule.NEVER,
          false,
          WindowRule.EVERY_LAYER);

  private static final ModelFamily QWEN2 =
      new ModelFamily(
          "Qwen2ForCausalLM",
          "qwen2",
          32,
          0,
          32768,
          1e-6,
          10000,
          false,
          List.of(),
          List.of(),
          FlagRule.ALWAYS,
          FlagRule.NEVER,
          FlagRule.NEVER,
          false,
          WindowRule.UPPER_LAYERS);

  private static final ModelFamily QWEN3 =
      new ModelFamily(
          "Qwen3ForCausalLM",
          "qwen3",
          32,
          128,
          32768,
          1e-6,
          10000,
          false,
          List.of(),
          List.of(),
          ATTENTION_BIAS,
          ATTENTION_BIAS,
          FlagRule.NEVER,
          true,
          WindowRule.UPPER_LAYERS);

  private static final List<ModelFamily> ALL = List.of(LLAMA, MISTRAL, QWEN2, QWEN3);

  static Optional<ModelFamily> byArchitecture(String name) {
    return ALL.stream().filter(family -> family.architecture.equals(name)).findFirst();
  }

  static Optional<ModelFamily> byModelType(String name) {
    return ALL.stream().filter(family -> family.modelType.equals(name)).findFirst();
  }

  /** The architectures that can be run. */
  static List<String> architectures() {
    return ALL.stream().map(ModelFamily::architecture).toList();
  }
}
