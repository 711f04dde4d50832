package dev.halcyon.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.TestInstance.Lifecycle;

/**
 * The embedded model through the public API, against float32 values of Hugging Face transformers.
 */
@TestInstance(Lifecycle.PER_CLASS)
public class DefaultModelTest {

  /** What the engines compute on. */
  protected TestBackend backend() {
    return TestBackend.CPU;
  }

  private static Engine engine;
  private static JsonNode cases;

  @BeforeAll
  void open() throws IOException {
    engine = backend().engine().defaultModel().integrityChecks(true).build();
    cases =
        new ObjectMapper()
            .readTree(TinyCheckpoint.fixture("default-model/reference.json").toFile())
            .get("cases");
  }

  @AfterAll
  static void close() {
    engine.close();
  }

  @Test
  void tokenIdsAreTheReferences() {
    for (JsonNode one : cases) {
      assertThat(engine.tokenize(one.get("prompt").asText())).isEqualTo(ints(one, "prompt_ids"));
    }
  }

  @Test
  void greedyContinuationsAreTheReferencesTogether() {
    SamplingParams greedy =
        SamplingParams.builder().temperature(0f).maxTokens(64).ignoreEos(true).build();
    List<GenerationRequest> requests = new ArrayList<>();
    for (JsonNode one : cases) {
      requests.add(GenerationRequest.of(one.get("prompt").asText(), greedy));
    }
    List<GenerationResult> results = engine.generate(requests);
    for (int i = 0; i < cases.size(); i++) {
      GenerationOutput output = results.get(i).outputs().get(0);
      assertThat(output.tokenIds()).containsExactly(boxed(ints(cases.get(i), "greedy_ids")));
      assertThat(output.text()).isEqualTo(cases.get(i).get("greedy_text").asText());
      assertThat(output.finishReason()).isEqualTo(FinishReason.LENGTH);
    }
  }

  /**
   * Each beginning of a prompt as a request of its own: its first token's logprobs are the
   * reference's.
   */
  @Test
  void topLogprobsAtEachPromptPositionAreTheReferences() {
    SamplingParams params =
        SamplingParams.builder().temperature(0f).maxTokens(1).logprobs(5).build();
    for (JsonNode one : cases) {
      if (!one.has("top5")) {
        continue;
      }
      int[] prompt = ints(one, "prompt_ids");
      for (int length = 1; length <= prompt.length; length++) {
        int[] beginning = java.util.Arrays.copyOf(prompt, length);
        GenerationResult result =
            engine.generate(
                GenerationRequest.of(beginning, params.toBuilder().ignoreEos(true).build()));
        TokenLogprobs logprobs = result.outputs().get(0).logprobs().get(0);
        assertTop5(logprobs, one.get("top5").get(length - 1));
      }
    }
  }

  /** All prompts at once, in chunks: every position's logprobs are the reference's. */
  @Test
  void promptLogprobsAreTheReferences() {
    SamplingParams params =
        SamplingParams.builder()
            .temperature(0f)
            .maxTokens(1)
            .ignoreEos(true)
            .promptLogprobs(5)
            .build();
    List<GenerationRequest> requests = new ArrayList<>();
    for (JsonNode one : cases) {
      requests.add(GenerationRequest.of(one.get("prompt").asText(), params));
    }
    List<GenerationResult> results = engine.generate(requests);
    for (int i = 0; i < cases.size(); i++) {
      assertPromptLogprobs(results.get(i), cases.get(i));
    }
  }

  private static void assertPromptLogprobs(GenerationResult result, JsonNode reference) {
    int[] prompt = ints(reference, "prompt_ids");
    assertThat(result.promptLogprobs()).hasSize(prompt.length);
    // The long prompt of the reference has its own tokens' logprobs alone.
    for (int row = 0; reference.has("top5") && row < prompt.length; row++) {
      assertTop5(result.promptLogprobs().get(row), reference.get("top5").get(row));
    }
    List<TokenLogprobs> byToken = result.promptLogprobsWithLeadingNull();
    assertThat(byToken).hasSize(prompt.length);
    assertThat(byToken.get(0)).isNull();
    for (int i = 1; i < prompt.length; i++) {
      assertThat(byToken.get(i).tokenId()).isEqualTo(prompt[i]);
      assertThat(byToken.get(i).chosen().logprob())
          .as("logprob of prompt token %d", i)
          .isCloseTo((float) reference.get("prompt_logprobs").get(i).asDouble(), within(1e-4f));
    }
    TokenLogprobs last = result.promptLogprobs().get(prompt.length - 1);
    assertThat(last.tokenId())
        .isEqualTo(result.outputs().get(0).tokenIds().get(0))
        .isEqualTo(ints(reference, "greedy_ids")[0]);
    assertThat(last.chosen().rank()).isEqualTo(1);
  }

  @Test
  void generationLogitsGiveTheLogprobs() {
    SamplingParams params =
        SamplingParams.builder()
            .temperature(0f)
            .maxTokens(8)
            .logprobs(0)
            .returnGenerationLogits(true)
            .build();
    try (GenerationResult result = engine.generate("The cat", params)) {
      GenerationOutput output = result.outputs().get(0);
      LogitsView logits = output.generationLogits();
      assertThat(logits.rows()).isEqualTo(output.tokenIds().size()).isEqualTo(8);
      assertThat(logits.vocabSize()).isEqualTo(2048);
      float[] row = new float[2048];
      for (int i = 0; i < logits.rows(); i++) {
        logits.copyRow(i, row);
        double sum = 0;
        for (float value : row) {
          sum += Math.exp(value);
        }
        double logprob = row[output.tokenIds().get(i)] - Math.log(sum);
        assertThat((double) output.logprobs().get(i).chosen().logprob())
            .isCloseTo(logprob, within(1e-5));
        assertThat(output.logprobs().get(i).entries()).hasSize(1);
      }
    }
  }

  @Test
  void aStoryEndsAtTheEndMarker() {
    SamplingParams params = SamplingParams.builder().maxTokens(900).seed(5L).build();
    GenerationOutput output = engine.generate("Once upon a time", params).outputs().get(0);
    assertThat(output.finishReason()).isEqualTo(FinishReason.STOP);
    assertThat(output.stopTokenId()).isZero();
    assertThat(output.tokenIds()).doesNotContain(0);
    assertThat(output.text()).startsWith(",").doesNotContain("<|endoftext|>");
  }

  private static void assertTop5(TokenLogprobs got, JsonNode top5) {
    List<Integer> ids = new ArrayList<>(got.entries().keySet());
    for (int rank = 1; rank <= 5; rank++) {
      int id = top5.get(rank - 1).get(0).asInt();
      float expected = (float) top5.get(rank - 1).get(1).asDouble();
      assertThat(ids.get(rank - 1)).isEqualTo(id);
      assertThat(got.entries().get(id).rank()).isEqualTo(rank);
      assertThat(got.entries().get(id).logprob()).isCloseTo(expected, within(1e-4f));
    }
  }

  private static int[] ints(JsonNode node, String field) {
    int[] values = new int[node.get(field).size()];
    for (int i = 0; i < values.length; i++) {
      values[i] = node.get(field).get(i).asInt();
    }
    return values;
  }

  private static Integer[] boxed(int[] values) {
    return java.util.Arrays.stream(values).boxed().toArray(Integer[]::new);
  }
}
