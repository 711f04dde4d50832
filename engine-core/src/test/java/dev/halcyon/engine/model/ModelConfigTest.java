package dev.halcyon.engine.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.ModelLoadException;
import dev.halcyon.engine.backend.Activation;
import dev.halcyon.engine.backend.RopeLayout;
import dev.halcyon.engine.weights.ModelFiles;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.FieldSource;

class ModelConfigTest {

  static final List<String> FIXTURES = Fixture.NAMES;

  private static final ObjectMapper JSON =
      new ObjectMapper().enable(JsonParser.Feature.ALLOW_SINGLE_QUOTES);

  private static final String LLAMA =
      """
      {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 96,
       "hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 2,
       "num_attention_heads": 4}""";

  private static ModelConfig parse(String json) {
    return ModelConfig.parse(json.getBytes(StandardCharsets.UTF_8), "config.json in test");
  }

  /** The small llama with keys set to other values, given as JSON with single quotes. */
  private static String llamaWith(String changes) {
    try {
      ObjectNode node = (ObjectNode) JSON.readTree(LLAMA);
      node.setAll((ObjectNode) JSON.readTree(changes));
      return node.toString();
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException(e);
    }
  }

  private static void refuses(String json, String... parts) {
    assertThatThrownBy(() -> parse(json))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContaining("config.json in test")
        .hasMessageContainingAll(parts);
  }

  @ParameterizedTest
  @FieldSource("FIXTURES")
  void bothFormsSayTheSame(String name) {
    Fixture fixture = Fixture.open(name);
    assertThat(fixture.config("config-classic.json")).isEqualTo(fixture.config("config.json"));
  }

  @Test
  void readsEveryValue() {
    ModelConfig config = Fixture.open("qwen2-sliding").config("config.json");

    assertThat(config.architecture()).isEqualTo("Qwen2ForCausalLM");
    assertThat(config.vocabSize()).isEqualTo(96);
    assertThat(config.hiddenSize()).isEqualTo(32);
    assertThat(config.intermediateSize()).isEqualTo(56);
    assertThat(config.heads()).isEqualTo(4);
    assertThat(config.kvHeads()).isEqualTo(2);
    assertThat(config.headDim()).isEqualTo(8);
    assertThat(config.packedCols()).isEqualTo((4 + 2 + 2) * 8);
    assertThat(config.contextLength()).isEqualTo(128);
    assertThat(config.normEps()).isEqualTo(1e-5f);
    assertThat(config.attentionScale()).isEqualTo((float) (1 / Math.sqrt(8)));
    assertThat(config.activation()).isEqualTo(Activation.SILU);
    assertThat(config.qkvBias()).isTrue();
    assertThat(config.outputBias()).isFalse();
    assertThat(config.mlpBias()).isFalse();
    assertThat(config.queryKeyNorm()).isFalse();
    assertThat(config.tiedEmbeddings()).isFalse();
    assertThat(config.bosId()).isEqualTo(1);
    assertThat(config.endIds()).containsExactly(2);
    assertThat(config.layers().stream().map(LayerConfig::slidingWindow)).containsExactly(0, 8, 8);
    assertThat(config.attention(1).slidingWindow()).isEqualTo(8);
    assertThat(config.layers().get(0).rope())
        .isEqualTo(new RopeConfig(10000, 8, RopeLayout.HALVES, new RopeScaling.None()));
  }

  @ParameterizedTest
  // Biases of q, k, v; of o; of the feed-forward layer; norms of heads; window of layer 0;
  // head_dim.
  @CsvSource({
    "llama-bias, true, true, true, false, 0, 8",
    "llama3-gqa-tied, false, false, false, false, 0, 16",
    "mistral-sliding, false, false, false, false, 8, 8",
    "mistral-full, false, false, false, false, 0, 8",
    "qwen2, true, false, false, false, 0, 8",
    "qwen3, false, false, false, true, 0, 16",
  })
  void familiesDiffer(
      String name, boolean qkv, boolean output, boolean mlp, boolean norms, int window, int dim) {
    ModelConfig config = Fixture.open(name).config("config.json");
    assertThat(config.qkvBias()).isEqualTo(qkv);
    assertThat(config.outputBias()).isEqualTo(output);
    assertThat(config.mlpBias()).isEqualTo(mlp);
    assertThat(config.queryKeyNorm()).isEqualTo(norms);
    assertThat(config.layers().get(0).slidingWindow()).isEqualTo(window);
    assertThat(config.headDim()).isEqualTo(dim);
  }

  @Test
  void fillsInWhatTheFamilyLeavesOut() {
    ModelConfig llama = parse(LLAMA);
    assertThat(llama.kvHeads()).isEqualTo(4);
    assertThat(llama.headDim()).isEqualTo(8);
    assertThat(llama.contextLength()).isEqualTo(2048);
    assertThat(llama.normEps()).isEqualTo(1e-6f);
    assertThat(llama.layers().get(0).rope().theta()).isEqualTo(10000);
    assertThat(llama.bosId()).isEqualTo(1);
    assertThat(llama.endIds()).containsExactly(2);
    ModelConfig without = parse(llamaWith("{'bos_token_id': null, 'eos_token_id': null}"));
    assertThat(without.bosId()).isEqualTo(-1);
    assertThat(without.endIds()).isEmpty();

    String other = "{'architectures': ['%s'], 'model_type': '%s', 'num_attention_heads': 64%s}";
    ModelConfig mistral =
        parse(llamaWith(other.formatted("MistralForCausalLM", "mistral", ", 'hidden_size': 1024")));
    assertThat(mistral.kvHeads()).isEqualTo(8);
    assertThat(mistral.contextLength()).isEqualTo(131072);
    assertThat(mistral.layers().get(1).slidingWindow()).isEqualTo(4096);
    ModelConfig qwen3 = parse(llamaWith(other.formatted("Qwen3ForCausalLM", "qwen3", "")));
    assertThat(qwen3.kvHeads()).isEqualTo(32);
    assertThat(qwen3.headDim()).isEqualTo(128);
    assertThat(qwen3.contextLength()).isEqualTo(32768);
    assertThat(qwen3.endIds()).isEmpty();
  }

  @Test
  void takesEitherNameOfTheFamily() {
    assertThat(parse(llamaWith("{'architectures': null}"))).isEqualTo(parse(LLAMA));
    assertThat(parse(llamaWith("{'model_type': null}"))).isEqualTo(parse(LLAMA));
    refuses(llamaWith("{'architectures': null, 'model_type': null}"), "architectures is absent");
    refuses(llamaWith("{'model_type': 'mistral'}"), "model_type is mistral", "expected llama");
    refuses(
        llamaWith("{'architectures': null, 'model_type': 'rwkv'}"), "model_type is rwkv", "Llama");
  }

  @Test
  void readsEndIdsAsOneOrMany() {
    assertThat(parse(llamaWith("{'eos_token_id': [7, 9, 7]}")).endIds()).containsExactly(7, 9);
    assertThat(parse(llamaWith("{'eos_token_id': 3}")).endIds()).containsExactly(3);
    refuses(llamaWith("{'eos_token_id': -1}"), "eos_token_id is -1");
    refuses(llamaWith("{'eos_token_id': [2, 96]}"), "eos_token_id is [2,96]", "0 to 95");
    refuses(llamaWith("{'bos_token_id': 'x'}"), "bos_token_id is \"x\"");
  }

  @Test
  void readsRotationsPerLayerType() {
    String json =
        llamaWith(
            """
            {'architectures': ['Qwen2ForCausalLM'], 'model_type': 'qwen2',
             'num_key_value_heads': 2, 'use_sliding_window': true, 'sliding_window': 16,
             'layer_types': ['sliding_attention', 'full_attention'],
             'rope_parameters': {
               'full_attention': {'rope_type': 'linear', 'factor': 2.0, 'rope_theta': 5000.0},
               'sliding_attention': {'rope_type': 'default', 'rope_theta': 100.0}}}""");

    List<LayerConfig> layers = parse(json).layers();

    assertThat(layers.get(0))
        .isEqualTo(
            new LayerConfig(16, new RopeConfig(100, 8, RopeLayout.HALVES, new RopeScaling.None())));
    assertThat(layers.get(1))
        .isEqualTo(
            new LayerConfig(
                0, new RopeConfig(5000, 8, RopeLayout.HALVES, new RopeScaling.Linear(2, 32768))));
    refuses(
        json.replace("\"full_attention\":{", "\"chunked\":{"),
        "rope_parameters.full_attention is absent");
  }

  @Test
  void stretchedRotationsMakeRoomForLongerSequences() {
    String yarn =
        "{'max_position_embeddings': 64, 'rope_scaling': {'type': 'yarn', 'factor': 4.0,"
            + " 'original_max_position_embeddings': 64}}";
    assertThat(parse(llamaWith(yarn)).contextLength()).isEqualTo(256);
    String dynamic =
        "{'max_position_embeddings': 64, 'rope_scaling': {'type': 'dynamic', 'factor': 2.5}}";
    assertThat(parse(llamaWith(dynamic)).contextLength()).isEqualTo(160);
    String llama3 =
        "{'max_position_embeddings': 512, 'rope_scaling': {'rope_type': 'llama3', 'factor': 8.0,"
            + " 'low_freq_factor': 1.0, 'high_freq_factor': 4.0,"
            + " 'original_max_position_embeddings': 128}}";
    assertThat(parse(llamaWith(llama3)).contextLength()).isEqualTo(512);
  }

  @Test
  void yarnsAttentionFactorFollowsItsKeys() {
    String yarn = "{'rope_scaling': {'type': 'yarn', 'factor': 40.0%s}}";
    // 0.1 * ln 40 + 1 = 1.36889
    assertThat(attentionScaling(yarn.formatted(""))).isEqualTo(0.1 * Math.log(40) + 1);
    assertThat(attentionScaling(yarn.formatted(", 'attention_factor': 1.5"))).isEqualTo(1.5);
    assertThat(attentionScaling(yarn.formatted(", 'mscale': 0.707, 'mscale_all_dim': 1.0")))
        .isCloseTo((0.0707 * Math.log(40) + 1) / (0.1 * Math.log(40) + 1), within(1e-12));
    assertThat(attentionScaling(yarn.formatted(", 'mscale': 2.0")))
        .isEqualTo(0.1 * Math.log(40) + 1);
  }

  private static double attentionScaling(String changes) {
    return parse(llamaWith(changes)).layers().get(0).rope().scaling().attentionScaling();
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "vocab_size | null | vocab_size is absent",
        "hidden_size | null | hidden_size is absent",
        "intermediate_size | null | intermediate_size is absent",
        "num_hidden_layers | null | num_hidden_layers is absent",
        "num_attention_heads | null | num_attention_heads is absent",
        "hidden_size | -32 | hidden_size is -32",
        "hidden_size | 32.5 | hidden_size is 32.5",
        "hidden_size | '32' | hidden_size is \"32\"",
        "hidden_size | 1e30 | hidden_size is 1.0E30",
        "hidden_size | 33 | hidden_size is 33, expected a multiple of num_attention_heads, 4",
        "num_hidden_layers | 0 | num_hidden_layers is 0",
        "num_key_value_heads | 3 | num_key_value_heads is 3, expected a divisor",
        "num_key_value_heads | 8 | num_key_value_heads is 8, expected a divisor",
        "head_dim | 7 | head_dim is 7, expected an even number",
        "head_dim | 0 | head_dim is 0",
        "max_position_embeddings | 0 | max_position_embeddings is 0",
        "rms_norm_eps | -1e-5 | rms_norm_eps is -1.0E-5",
        "rms_norm_eps | 0 | rms_norm_eps is 0, expected a finite number above 0",
        "rope_theta | 0 | rope_theta is 0",
        "hidden_act | 'relu' | hidden_act is relu, expected one of silu",
        "tie_word_embeddings | 1 | tie_word_embeddings is 1, expected true or false",
        "torch_dtype | 'float8_e4m3fn' | torch_dtype is float8_e4m3fn",
        "dtype | 'int8' | dtype is int8",
        "quantization_config | {'quant_method': 'gptq'} | quantization_config is not supported",
        "attention_chunk_size | 8192 | attention_chunk_size is not supported",
        "partial_rotary_factor | 0.5 | partial_rotary_factor is 0.5, expected 1",
        "architectures | ['GPT2LMHeadModel'] | architectures is [GPT2LMHeadModel]",
        "architectures | [] | architectures is []",
        "architectures | 'LlamaForCausalLM' | architectures is \"LlamaForCausalLM\"",
        "layer_types | ['full_attention'] | layer_types has 1 entries",
        "layer_types | ['full_attention', 'linear_attention'] | layer_types has linear_attention",
        "layer_types | ['full_attention', 'sliding_attention'] | as there is no window",
        "rope_scaling | {'type': 'longrope', 'short_factor': []} | rope_scaling.type is longrope",
        "rope_scaling | {'rope_type': 'su'} | rope_scaling.rope_type is su",
        "rope_scaling | {'type': 'linear'} | rope_scaling.factor is absent",
        "rope_scaling | {'type': 'linear', 'factor': 0.5} | rope_scaling.factor is 0.5",
        "rope_scaling | {'type': 'dynamic', 'factor': 2, 'alpha': 3} | rope_scaling.alpha is not",
        "rope_scaling | {'type': 'llama3', 'factor': 8} | rope_scaling.low_freq_factor is absent",
        "rope_scaling | {'type': 'default', 'mrope_section': [1]} | rope_scaling.mrope_section",
        "rope_scaling | 'yarn' | rope_scaling is \"yarn\", expected an object",
        "rope_parameters | {'rope_theta': -1} | rope_parameters.rope_theta is -1",
        "rope_parameters | {'partial_rotary_factor': 0.5} | rope_parameters.partial_rotary_factor",
      })
  void refusesByName(String key, String value, String message) {
    refuses(llamaWith("{'" + key + "': " + value + "}"), message);
  }

  @Test
  void refusesWhatIsNoNumber() {
    String withEps = LLAMA.replace("}", ", \"rms_norm_eps\": %s}");
    refuses(withEps.formatted("NaN"), "rms_norm_eps is NaN");
    refuses(withEps.formatted("Infinity"), "rms_norm_eps is Infinity");
    refuses(withEps.formatted("\"small\""), "rms_norm_eps is small");
    refuses(LLAMA.replace("\"hidden_size\": 32", "\"hidden_size\": NaN"), "hidden_size is");
    refuses(LLAMA.replace("}", ", \"rope_theta\": -Infinity}"), "rope_theta is -Infinity");
  }

  @Test
  void refusesLlama3FrequenciesOutOfOrderAndYarnsBetas() {
    refuses(
        llamaWith(
            "{'rope_scaling': {'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 4.0,"
                + " 'high_freq_factor': 4.0}}"),
        "rope_scaling.high_freq_factor is 4.0, expected more than low_freq_factor, 4.0");
    refuses(
        llamaWith(
            "{'rope_scaling': {'rope_type': 'yarn', 'factor': 8.0, 'beta_fast': 1.0,"
                + " 'beta_slow': 2.0}}"),
        "rope_scaling.beta_fast is 1.0, expected at least beta_slow, 2.0");
  }

  @Test
  void refusesBothFormsAtOnce() {
    refuses(
        llamaWith("{'rope_scaling': {'type': 'linear', 'factor': 2}, 'rope_parameters': {}}")
            .replace("\"rope_parameters\":{}", "\"rope_parameters\":{\"rope_theta\":5}"),
        "rope_scaling stands beside rope_parameters");
  }

  @Test
  void refusesTextThatIsNoObject() {
    refuses("{", "not valid JSON");
    refuses("[]", "not a JSON object");
    refuses("{\"a\": 1, \"a\": 2}", "'a'");
  }

  @Test
  void refusesDirectoryWithoutConfig(@TempDir Path empty) {
    ModelFiles files = ModelFiles.directory(empty);
    assertThatThrownBy(() -> ModelConfig.parse(files))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContainingAll(empty.toString(), "has no config.json", "Hugging Face layout");
  }
}
