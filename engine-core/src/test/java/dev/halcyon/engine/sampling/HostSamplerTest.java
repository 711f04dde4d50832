package dev.halcyon.engine.sampling;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.LogitsProcessor;
import dev.halcyon.engine.LogitsProcessorException;
import dev.halcyon.engine.SamplingException;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class HostSamplerTest {

  private static final float NEVER = Float.NEGATIVE_INFINITY;

  @Test
  void greedyTakesTheHighestAndTheLowestIdOfATie() {
    assertThat(Rows.greedy().sample(1, 3, 2).tokenId()).isEqualTo(1);
    assertThat(Rows.greedy().sample(1, 3, 3).tokenId()).isEqualTo(1);
    assertThat(Rows.greedy().sample(-0.0f, 0.0f).tokenId()).isZero();
    Rows one = new Rows();
    one.topK = 1;
    for (int position = 0; position < 50; position++) {
      one.position = position;
      assertThat(one.sample(1, 3, 3).tokenId()).isEqualTo(1);
    }
  }

  @Test
  void aRequestWithNothingToChangeLeavesTheLogitsAlone() {
    float[] logits = {1, 2, 3};
    Rows rows = new Rows();
    rows.logprobs = 3;
    new HostSampler().sample(logits, rows.row());
    assertThat(logits).containsExactly(1, 2, 3);
  }

  @Test
  void penaltiesChangeLogitsByHand() {
    Rows rows = new Rows();
    rows.repetition = 2;
    rows.presence = 0.5f;
    rows.frequency = 0.25f;
    rows.prompt = new int[] {0, 1, 1};
    rows.generated = new int[] {2, 3, 2, 1, 2};
    float[] logits = {4, -4, 8, 0, 5};
    LogitAdjustments.apply(logits, rows.row());
    assertThat(logits)
        .containsExactly(
            4f / 2, // prompt alone: repetition only
            -4f * 2 - 0.25f - 0.5f, // once in the output; the prompt's two don't count
            8f / 2 - 3 * 0.25f - 0.5f, // three times
            0f - 0.25f - 0.5f, // once, 0 stays 0 under repetition
            5f); // nowhere
  }

  @Test
  void withoutRepetitionPenaltyThePromptPlaysNoPart() {
    Rows rows = new Rows();
    rows.presence = -1;
    rows.prompt = new int[] {0};
    rows.generated = new int[] {1, 1};
    float[] logits = {1, 1, 1};
    LogitAdjustments.apply(logits, rows.row());
    assertThat(logits).containsExactly(1, 2, 1);
  }

  @Test
  void biasIsAddedBeforeTheRepetitionPenalty() {
    Rows rows = new Rows();
    rows.bias = Map.of(0, 3f, 2, NEVER);
    rows.repetition = 2;
    rows.generated = new int[] {0};
    float[] logits = {-1, 1, 9};
    LogitAdjustments.apply(logits, rows.row());
    assertThat(logits).containsExactly((-1f + 3f) / 2, 1, NEVER);
  }

  @Test
  void endIdsAreRuledOutUntilMinTokens() {
    Rows rows = Rows.greedy();
    rows.minTokens = 2;
    rows.endIds = Set.of(1, 99); // 99 is outside the vocabulary
    for (int position = 0; position < 4; position++) {
      rows.position = position;
      assertThat(rows.sample(1, 3, 2).tokenId()).isEqualTo(position < 2 ? 2 : 1);
    }
  }

  @Test
  void theProcessorSeesTheTokensAndComesFirst() {
    Rows rows = Rows.greedy();
    rows.prompt = new int[] {5, 6};
    rows.generated = new int[] {7};
    rows.bias = Map.of(0, 1.5f);
    rows.processor =
        (prompt, generated, logits) -> {
          assertThat(prompt).isEqualTo(List.of(5, 6));
          assertThat(generated).isEqualTo(List.of(7));
          assertThat(logits).containsExactly(1, 2, 3);
          logits[2] = NEVER; // of its own copy
          return new float[] {1, 2, NEVER};
        };
    SampledToken sampled = rows.sample(1, 2, 3);
    assertThat(sampled.error()).isNull();
    assertThat(sampled.tokenId()).isZero(); // 1 + 1.5 beats 2
  }

  @Test
  void theProcessorCanNotChangeTheTokens() {
    Rows rows = Rows.greedy();
    rows.prompt = new int[] {5};
    rows.processor =
        (prompt, generated, logits) -> {
          prompt.set(0, 1);
          return logits;
        };
    assertThat(rows.sample(1, 2).error())
        .isInstanceOf(LogitsProcessorException.class)
        .hasCauseInstanceOf(UnsupportedOperationException.class);
  }

  @Test
  void aFailingProcessorFailsItsOwnRow() {
    IllegalStateException cause = new IllegalStateException("no grammar");
    Rows rows = new Rows();
    rows.processor =
        (prompt, generated, logits) -> {
          throw cause;
        };
    SampledToken sampled = rows.sample(1, 2);
    assertThat(sampled.error())
        .isInstanceOf(LogitsProcessorException.class)
        .hasCause(cause)
        .hasMessageContaining("threw")
        .hasMessageContaining("no grammar");
    rows.processor =
        (prompt, generated, logits) -> {
          throw new AssertionError("even an error");
        };
    assertThat(rows.sample(1, 2).error()).isInstanceOf(LogitsProcessorException.class);
  }

  @Test
  void aProcessorMustReturnLogitsForTheVocabulary() {
    assertProcessorRefused((p, g, logits) -> new float[3], "array of 3", "vocabSize = 2");
    assertProcessorRefused((p, g, logits) -> null, "null", "vocabSize = 2");
    assertProcessorRefused((p, g, logits) -> new float[] {0, Float.NaN}, "NaN for token 1");
    assertProcessorRefused(
        (p, g, logits) -> new float[] {Float.POSITIVE_INFINITY, 0}, "Infinity for token 0");
  }

  private static void assertProcessorRefused(LogitsProcessor processor, String... said) {
    Rows rows = new Rows();
    rows.processor = processor;
    assertThat(rows.sample(1, 2).error())
        .isInstanceOf(LogitsProcessorException.class)
        .hasMessageContainingAll(said);
  }

  @ParameterizedTest
  @ValueSource(floats = {0, 1})
  void logitsThatLeaveNothingToDrawFromAreATypedError(float temperature) {
    Rows rows = new Rows();
    rows.temperature = temperature;
    assertSamplingError(rows.sample(1, Float.NaN), "model's logits", "NaN at token 1");
    assertSamplingError(rows.sample(NEVER, NEVER), "model's logits", "rule out every token");
    assertSamplingError(
        rows.sample(0, Float.POSITIVE_INFINITY), "model's logits", "positive infinity at token 1");
    rows.bias = Map.of(0, NEVER, 1, NEVER);
    assertSamplingError(rows.sample(1, 2), "after processor, bias", "rule out every token");
    rows.bias = Map.of(0, Float.MAX_VALUE);
    assertSamplingError(rows.sample(Float.MAX_VALUE, 2), "after processor", "positive infinity");
  }

  private static void assertSamplingError(SampledToken sampled, String... said) {
    assertThat(sampled.error()).isInstanceOf(SamplingException.class).hasMessageContainingAll(said);
  }

  @Test
  void whatIsReportedIsTheModelsOwn() {
    Rows rows = Rows.greedy();
    rows.copyLogits = true;
    rows.logprobs = 1;
    rows.bias = Map.of(2, 100f);
    SampledToken sampled = rows.sample(1, 1, 0);
    assertThat(sampled.tokenId()).isEqualTo(2);
    assertThat(sampled.logits()).containsExactly(1, 1, 0);
    assertThat(sampled.logprobs().chosen().rank()).isEqualTo(3);
    assertThat(sampled.logprobs().entries().keySet()).containsExactly(0, 2);
    rows.copyLogits = false;
    rows.logprobs = -1;
    assertThat(rows.sample(1, 1, 0).logits()).isNull();
    assertThat(rows.sample(1, 1, 0).logprobs()).isNull();
  }
}
