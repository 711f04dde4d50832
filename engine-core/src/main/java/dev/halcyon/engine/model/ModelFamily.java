package dev.halcyon.engine.model;

import java.util.List;
import java.util.Map;
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
 * @param norm the norms
 * @param rope the rotary embeddings
 * @param scales factors and caps
 * @param activation the feed-forward layer's nonlinearity
 * @param block how a layer is put together
 * @param qkvBias whether queries, keys and values have biases
 * @param outputBias whether attention's output projection has a bias
 * @param mlpBias whether the feed-forward projections have biases
 * @param queryKeyNorm whether heads of queries and keys are normalised
 * @param windows which layers have a sliding window
 * @param fullEvery n of {@link WindowRule#ALL_BUT_EVERY_NTH} if left out
 * @param tiedEmbeddings tie_word_embeddings if left out
 * @param bosIds bos_token_id if left out
 * @param endIds eos_token_id if left out
 * @param only the one value, as JSON, that a key may have; null in JSON for none at all
 */
record ModelFamily(
    String architecture,
    String modelType,
    int kvHeads,
    int headDim,
    int maxPositions,
    NormRule norm,
    RopeRule rope,
    ScaleRules scales,
    ActivationRule activation,
    BlockLayout block,
    FlagRule qkvBias,
    FlagRule outputBias,
    FlagRule mlpBias,
    boolean queryKeyNorm,
    WindowRule windows,
    int fullEvery,
    boolean tiedEmbeddings,
    List<Integer> bosIds,
    List<Integer> endIds,
    Map<String, String> only) {

  private static final FlagRule ATTENTION_BIAS = FlagRule.key("attention_bias");

  private static final ModelFamily LLAMA =
      new ModelFamily(
          "LlamaForCausalLM",
          "llama",
          0,
          0,
          2048,
          NormRule.RMS,
          RopeRule.PLAIN,
          ScaleRules.PLAIN,
          ActivationRule.SILU,
          BlockLayout.PRE_NORM,
          ATTENTION_BIAS,
          ATTENTION_BIAS,
          FlagRule.key("mlp_bias"),
          false,
          WindowRule.NONE,
          0,
          false,
          List.of(1),
          List.of(2),
          Map.of());

  private static final ModelFamily MISTRAL =
      new ModelFamily(
          "MistralForCausalLM",
          "mistral",
          8,
          0,
          131072,
          NormRule.RMS,
          RopeRule.PLAIN,
          ScaleRules.PLAIN,
          ActivationRule.SILU,
          BlockLayout.PRE_NORM,
          FlagRule.NEVER,
          FlagRule.NEVER,
          FlagRule.NEVER,
          false,
          WindowRule.EVERY_LAYER,
          0,
          false,
          List.of(1),
          List.of(2),
          Map.of());

  private static final ModelFamily QWEN2 =
      new ModelFamily(
          "Qwen2ForCausalLM",
          "qwen2",
          32,
          0,
          32768,
          NormRule.RMS,
          RopeRule.PLAIN,
          ScaleRules.PLAIN,
          ActivationRule.SILU,
          BlockLayout.PRE_NORM,
          FlagRule.ALWAYS,
          FlagRule.NEVER,
          FlagRule.NEVER,
          false,
          WindowRule.UPPER_LAYERS,
          0,
          false,
          List.of(),
          List.of(),
          Map.of());

  private static final ModelFamily QWEN3 =
      new ModelFamily(
          "Qwen3ForCausalLM",
          "qwen3",
          32,
          128,
          32768,
          NormRule.RMS,
          RopeRule.PLAIN,
          ScaleRules.PLAIN,
          ActivationRule.SILU,
          BlockLayout.PRE_NORM,
          ATTENTION_BIAS,
          ATTENTION_BIAS,
          FlagRule.NEVER,
          true,
          WindowRule.UPPER_LAYERS,
          0,
          false,
          List.of(),
          List.of(),
          Map.of());

  private static final ModelFamily GEMMA2 =
      new ModelFamily(
          "Gemma2ForCausalLM",
          "gemma2",
          4,
          256,
          8192,
          NormRule.RMS_LESS_ONE,
          RopeRule.PLAIN,
          ScaleRules.GEMMA2,
          ActivationRule.GELU_TANH,
          BlockLayout.PRE_AND_POST_NORM,
          ATTENTION_BIAS,
          ATTENTION_BIAS,
          FlagRule.NEVER,
          false,
          WindowRule.ALL_BUT_EVERY_NTH,
          2,
          true,
          List.of(2),
          List.of(1),
          Map.of("use_bidirectional_attention", "false", "sliding_window_pattern", "2"));

  /** Its attention has no cap: a config that sets one means another model. */
  private static final ModelFamily GEMMA3 =
      new ModelFamily(
          "Gemma3ForCausalLM",
          "gemma3_text",
          4,
          256,
          131072,
          NormRule.RMS_LESS_ONE,
          RopeRule.GLOBAL_AND_LOCAL,
          ScaleRules.GEMMA3,
          ActivationRule.GELU_TANH,
          BlockLayout.PRE_AND_POST_NORM,
          ATTENTION_BIAS,
          ATTENTION_BIAS,
          FlagRule.NEVER,
          true,
          WindowRule.ALL_BUT_EVERY_NTH,
          6,
          true,
          List.of(2),
          List.of(1),
          Map.of("use_bidirectional_attention", "false", "attn_logit_softcapping", "null"));

  /**
   * The keys with one value are those of the first checkpoints, which say what is the same in all.
   */
  private static final ModelFamily COHERE2 =
      new ModelFamily(
          "Cohere2ForCausalLM",
          "cohere2",
          0,
          0,
          8192,
          NormRule.LAYER,
          RopeRule.SLIDING_LAYERS_INTERLEAVED,
          ScaleRules.COHERE2,
          ActivationRule.SILU,
          BlockLayout.PARALLEL,
          ATTENTION_BIAS,
          ATTENTION_BIAS,
          FlagRule.NEVER,
          false,
          WindowRule.ALL_BUT_EVERY_NTH,
          4,
          true,
          List.of(5),
          List.of(255001),
          Map.of(
              "use_qk_norm",
              "false",
              "use_parallel_block",
              "true",
              "use_gated_activation",
              "true",
              "position_embedding_type",
              "\"rope_gptj\"",
              "order_of_interleaved_layers",
              "\"local_attn_first\""));

  private static final List<ModelFamily> ALL =
      List.of(LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA2, GEMMA3, COHERE2);

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
