package dev.halcyon.engine.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.ModelLoadException;
import dev.halcyon.engine.backend.Activation;
import dev.halcyon.engine.backend.RopeLayout;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What is particular to the families whose layers differ. */
class GemmaAndCohereConfigTest {

  private static final ObjectMapper JSON =
      new ObjectMapper().enable(JsonParser.Feature.ALLOW_SINGLE_QUOTES);

  /** The keys that no family has a default for. */
  private static final String SIZES =
      "{'vocab_size': %d, 'hidden_size': 64, 'intermediate_size': 56,"
          + " 'num_hidden_layers': 7, 'num_attention_heads': 8, 'model_type': '%s'}";

  /** A fixture's config, "cohere2/config.json" say, with keys set to other values. */
  private static ModelConfig with(String file, String changes) {
    String[] names = file.split("/");
    try {
      byte[] json = Fixture.open(names[0]).files().read(names[1]).orElseThrow();
      ObjectNode node = (ObjectNode) JSON.readTree(json);
      node.setAll((ObjectNode) JSON.readTree(changes));
      return ModelConfig.parse(JSON.writeValueAsBytes(node), file);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static ModelConfig sizesOnly(String modelType, int vocabSize) {
    try {
      byte[] json = JSON.writeValueAsBytes(JSON.readTree(SIZES.formatted(vocabSize, modelType)));
      return ModelConfig.parse(json, "sizes");
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static List<Integer> windows(ModelConfig config) {
    return config.layers().stream().map(LayerConfig::slidingWindow).toList();
  }

  private static RopeConfig rotation(double theta, int dim) {
    return new RopeConfig(theta, dim, RopeLayout.HALVES, new RopeScaling.None());
  }

  @Test
  void readsGemma2() {
    ModelConfig config = Fixture.open("gemma2").config("config.json");

    assertThat(config.norm()).isEqualTo(NormKind.RMS);
    assertThat(config.normEps()).isEqualTo(1e-6f);
    assertThat(config.normWeightOffset()).isEqualTo(1);
    assertThat(config.embeddingScale()).isEqualTo((float) Math.sqrt(40));
    assertThat(config.attentionScale()).isEqualTo((float) (1 / Math.sqrt(24)));
    assertThat(config.attentionSoftcap()).isEqualTo(2);
    assertThat(config.logitSoftcap()).isEqualTo(4);
    assertThat(config.logitScale()).isEqualTo(1);
    assertThat(config.activation()).isEqualTo(Activation.GELU_TANH);
    assertThat(config.block()).isEqualTo(BlockLayout.PRE_AND_POST_NORM);
    assertThat(config.queryKeyNorm()).isFalse();
    assertThat(config.qkvBias()).isFalse();
    assertThat(config.tiedEmbeddings()).isTrue();
    assertThat(config.headDim()).isEqualTo(16);
    assertThat(windows(config)).containsExactly(8, 0, 8);
    assertThat(config.layers()).allMatch(layer -> layer.rope().equals(rotation(500, 16)));
  }

  @Test
  void gemma2FillsInWhatIsLeftOutAndANullCapIsNone() {
    ModelConfig config = sizesOnly("gemma2", 256000);
    assertThat(config.attentionSoftcap()).isEqualTo(50);
    assertThat(config.logitSoftcap()).isEqualTo(30);
    assertThat(config.attentionScale()).isEqualTo(1 / 16f);
    assertThat(config.headDim()).isEqualTo(256);
    assertThat(config.kvHeads()).isEqualTo(4);
    assertThat(config.contextLength()).isEqualTo(8192);
    assertThat(config.tiedEmbeddings()).isTrue();
    assertThat(config.bosId()).isEqualTo(2);
    assertThat(config.endIds()).containsExactly(1);
    assertThat(windows(config)).containsExactly(4096, 0, 4096, 0, 4096, 0, 4096);

    ModelConfig uncapped = Fixture.open("gemma2-bf16").config("config-classic.json");
    assertThat(uncapped.attentionSoftcap()).isZero();
    assertThat(uncapped.logitSoftcap()).isZero();
    assertThat(uncapped.qkvBias()).isTrue();
    assertThat(uncapped.outputBias()).isTrue();
    assertThat(uncapped.mlpBias()).isFalse();
    assertThat(uncapped.tiedEmbeddings()).isFalse();
  }

  @Test
  void readsGemma3() {
    ModelConfig config = Fixture.open("gemma3").config("config-classic.json");

    assertThat(config.normWeightOffset()).isEqualTo(1);
    assertThat(config.queryKeyNorm()).isTrue();
    assertThat(config.attentionSoftcap()).isZero();
    assertThat(config.logitSoftcap()).isZero();
    assertThat(config.attentionScale()).isEqualTo((float) (1 / Math.sqrt(20)));
    assertThat(config.layers())
        .containsExactly(
            new LayerConfig(8, rotation(100, 16)),
            new LayerConfig(8, rotation(100, 16)),
            new LayerConfig(0, rotation(5000, 16)),
            new LayerConfig(8, rotation(100, 16)));
  }

  @Test
  void gemma3ScalesItsFullLayersAloneAndCountsPositionsAfterScaling() {
    ModelConfig config = Fixture.open("gemma3-linear").config("config-classic.json");

    assertThat(config.layers().get(4)).isEqualTo(new LayerConfig(8, rotation(10000, 16)));
    RopeScaling linear = new RopeScaling.Linear(4, 192);
    assertThat(config.layers().get(5))
        .isEqualTo(new LayerConfig(0, new RopeConfig(1000, 16, RopeLayout.HALVES, linear)));
    assertThat(config.contextLength()).isEqualTo(192);
    assertThat(config.logitSoftcap()).isEqualTo(5);
  }

  @Test
  void gemma3FillsInWhatIsLeftOut() {
    ModelConfig config = sizesOnly("gemma3_text", 256000);
    assertThat(windows(config)).containsExactly(4096, 4096, 4096, 4096, 4096, 0, 4096);
    assertThat(config.layers().get(0).rope()).isEqualTo(rotation(10_000, 256));
    assertThat(config.layers().get(5).rope()).isEqualTo(rotation(1_000_000, 256));
    assertThat(config.contextLength()).isEqualTo(131072);
    assertThat(config.logitSoftcap()).isZero();

    String fullLayersOnly =
        "{'rope_parameters': {'full_attention': {'rope_type': 'linear', 'factor': 2.0}},"
            + " 'rope_local_base_freq': 77.0}";
    ModelConfig half = with("gemma3/config.json", fullLayersOnly);
    assertThat(half.layers().get(0).rope()).isEqualTo(rotation(77, 16));
    assertThat(half.layers().get(2).rope().theta()).isEqualTo(1_000_000);
    assertThat(half.layers().get(2).rope().scaling()).isEqualTo(new RopeScaling.Linear(2, 192));
  }

  @Test
  void readsCohere2() {
    ModelConfig config = Fixture.open("cohere2").config("config-classic.json");

    assertThat(config.norm()).isEqualTo(NormKind.LAYER);
    assertThat(config.normEps()).isEqualTo(1e-5f);
    assertThat(config.normWeightOffset()).isZero();
    assertThat(config.block()).isEqualTo(BlockLayout.PARALLEL);
    assertThat(config.logitScale()).isEqualTo(0.25f);
    assertThat(config.embeddingScale()).isEqualTo(1);
    assertThat(config.attentionScale()).isEqualTo((float) (1 / Math.sqrt(12)));
    RopeConfig rope = new RopeConfig(10000, 12, RopeLayout.INTERLEAVED, new RopeScaling.None());
    assertThat(config.layers())
        .containsExactly(
            new LayerConfig(8, rope),
            new LayerConfig(8, rope),
            new LayerConfig(8, rope),
            new LayerConfig(0, null));
    // Twice the 192 positions of the config.
    assertThat(Fixture.open("cohere2-bias").config("config.json").contextLength()).isEqualTo(384);
  }

  @Test
  void cohere2FillsInWhatIsLeftOut() {
    ModelConfig config = sizesOnly("cohere2", 256000);
    assertThat(config.logitScale()).isEqualTo(0.0625f);
    assertThat(config.kvHeads()).isEqualTo(8);
    assertThat(config.headDim()).isEqualTo(8);
    assertThat(windows(config)).containsExactly(4096, 4096, 4096, 0, 4096, 4096, 4096);
    assertThat(config.bosId()).isEqualTo(5);
    assertThat(config.endIds()).containsExactly(255001);
    // A vocabulary of 96 has no such id.
    assertThat(sizesOnly("cohere2", 96).endIds()).isEmpty();
  }

  @Test
  void writtenLayerTypesWinOverThePattern() {
    String types = "{'layer_types': ['full_attention', 'sliding_attention', 'full_attention']}";
    ModelConfig gemma = with("gemma2/config.json", types);
    assertThat(windows(gemma)).containsExactly(0, 8, 0);
    ModelConfig cohere = with("cohere2-bias/config-classic.json", types);
    assertThat(windows(cohere)).containsExactly(0, 8, 0);
    assertThat(cohere.layers().get(0).rope()).isNull();
    assertThat(cohere.layers().get(1).rope()).isNotNull();
  }

  @Test
  void takesThePublishedConfigOfCohere2() {
    String keys =
        "{'use_qk_norm': false, 'use_parallel_block': true, 'use_gated_activation': true,"
            + " 'position_embedding_type': 'rope_gptj', 'rotary_pct': 1.0, 'layer_switch': 4,"
            + " 'order_of_interleaved_layers': 'local_attn_first'}";
    assertThat(with("cohere2/config-classic.json", keys))
        .isEqualTo(Fixture.open("cohere2").config("config.json"));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "gemma2/config.json | sliding_window | null | sliding_window is null, expected a length",
        "gemma2/config.json | sliding_window | 0 | sliding_window is 0",
        "gemma2/config.json | sliding_window_pattern | 3 | is 3, expected 2 for Gemma2ForCausalLM",
        "gemma2/config.json | use_bidirectional_attention | true | is true, expected false for",
        "gemma2/config.json | attn_logit_softcapping | 0 | attn_logit_softcapping is 0",
        "gemma2/config.json | attn_logit_softcapping | -50.0 | attn_logit_softcapping is -50.0",
        "gemma2/config.json | final_logit_softcapping | 'x' | final_logit_softcapping is x",
        "gemma2/config.json | query_pre_attn_scalar | 0 | query_pre_attn_scalar is 0",
        "gemma2/config.json | hidden_activation | 'relu' | hidden_activation is relu",
        "gemma2/config.json | rms_norm_eps | 0 | rms_norm_eps is 0",
        "gemma2/config.json | layer_types | ['full_attention'] | layer_types has 1 entries",
        "gemma3/config.json | attn_logit_softcapping | 50.0 | is 50.0, expected null for Gemma3",
        "gemma3/config.json | use_bidirectional_attention | true | is true, expected false for",
        "gemma3/config.json | model_type | 'gemma3' | model_type is gemma3, expected gemma3_text",
        "gemma3/config.json | text_config | {} | text_config is not supported",
        "gemma3/config.json | rope_parameters | {'rope_theta': 5.0} | each type of layer for Gemma3",
        "gemma3/config.json | rope_parameters | {'sliding_attention': {'rope_type': 'su'}} |"
            + " rope_parameters.sliding_attention.rope_type is su",
        "gemma3/config-classic.json | sliding_window_pattern | 0 | sliding_window_pattern is 0",
        "gemma3/config-classic.json | rope_local_base_freq | 0 | rope_local_base_freq is 0",
        "gemma3/config-classic.json | rope_scaling | {'rope_type': 'linear'} | factor is absent",
        "cohere2/config.json | sliding_window | null | sliding_window is null, expected a length",
        "cohere2/config.json | use_qk_norm | true | use_qk_norm is true, expected false for Cohere2",
        "cohere2/config.json | use_parallel_block | false | is false, expected true for Cohere2",
        "cohere2/config.json | use_gated_activation | false | is false, expected true for Cohere2",
        "cohere2/config.json | rotary_pct | 0.5 | rotary_pct is 0.5, expected 1 for Cohere2",
        "cohere2/config.json | position_embedding_type | 'alibi' | expected `rope_gptj` for Cohere2",
        "cohere2/config.json | logit_scale | 0 | logit_scale is 0",
        "cohere2/config.json | layer_norm_eps | -1e-5 | layer_norm_eps is -1.0E-5",
        "cohere2/config-classic.json | sliding_window_pattern | 2.5 | sliding_window_pattern is 2.5",
      })
  void refusesByName(String file, String key, String value, String message) {
    String expected = message.replace('`', '"');
    assertThatThrownBy(() -> with(file, "{'" + key + "': " + value + "}"))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContainingAll(file, key, expected);
  }
}
