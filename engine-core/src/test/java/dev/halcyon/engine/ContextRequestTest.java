package dev.halcyon.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.halcyon.engine.TokenLogprobs.Entry;
import dev.halcyon.engine.model.Fixture;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The forms in which a request gets rows of its prompt, and what is refused. */
@Timeout(60)
class ContextRequestTest {

  private static final String MODEL = "qwen3";
  private static final int VOCAB = 96;

  private static PromptReference prompt;
  private static Engine engine;

  @BeforeAll
  static void open() {
    Fixture.Case one = Fixture.open(MODEL).cases().get(1);
    prompt = PromptReference.of(one.promptIds(), one.logits());
    engine =
        Engine.builder().model(Fixture.directory(MODEL)).threads(1).integrityChecks(true).build();
  }

  @AfterAll
  static void close() {
    engine.close();
  }

  private static SamplingParams.Builder greedy() {
    return SamplingParams.builder().temperature(0f).maxTokens(4).ignoreEos(true);
  }

  private static GenerationResult run(SamplingParams params) {
    return engine.generate(GenerationRequest.of(prompt.prompt(), params));
  }

  @Test
  void theSimpleFormatHasTheScoredTokenAloneWithoutRank() {
    GenerationResult ranked = run(greedy().promptLogprobs(0).logprobs(0).build());
    GenerationResult simple =
        run(greedy().promptLogprobs(0).logprobs(0).simpleLogprobs(true).build());
    prompt.checkLogprobs("ranked", ranked.promptLogprobs(), prompt.greedyToken(), 0);
    assertSimple(simple.promptLogprobs(), ranked.promptLogprobs());
    assertSimple(simple.outputs().get(0).logprobs(), ranked.outputs().get(0).logprobs());
  }

  private static void assertSimple(List<TokenLogprobs> simple, List<TokenLogprobs> ranked) {
    assertThat(simple).hasSameSizeAs(ranked);
    for (int i = 0; i < simple.size(); i++) {
      assertThat(simple.get(i).entries())
          .containsOnlyKeys(ranked.get(i).tokenId())
          .containsValue(new Entry(ranked.get(i).chosen().logprob(), 0));
      assertThat(ranked.get(i).chosen().rank()).isPositive();
    }
  }

  @Test
  void everyTokenOfTheVocabularyCanBeAskedForAndNoMore() {
    GenerationResult all = run(greedy().promptLogprobs(VOCAB).build());
    prompt.checkLogprobs("all", all.promptLogprobs(), prompt.greedyToken(), VOCAB);
    for (TokenLogprobs entry : all.promptLogprobs()) {
      double sum = entry.entries().values().stream().mapToDouble(e -> Math.exp(e.logprob())).sum();
      assertThat(sum).isCloseTo(1, within(1e-5));
    }
    SamplingParams more = greedy().promptLogprobs(VOCAB + 1).build();
    assertThatThrownBy(() -> run(more))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("promptLogprobs is 97, expected at most the vocabulary's size, 96");
  }

  @Test
  void whatIsNotAskedForIsNull() {
    try (GenerationResult plain = run(greedy().build());
        GenerationResult full = run(greedy().returnContextLogits(true).build());
        GenerationResult compact = run(greedy().promptLogprobs(0).build())) {
      assertThat(plain.contextLogits()).isNull();
      assertThat(plain.promptLogprobs()).isNull();
      assertThat(full.promptLogprobs()).isNull();
      assertThat(full.contextLogits()).isNotNull();
      assertThat(compact.contextLogits()).isNull();
      assertThat(compact.promptLogprobs()).isNotNull();
    }
  }

  @Test
  void rowsAreThoseOfThePromptThatTruncationLeft() {
    int kept = 3;
    int[] ids = prompt.prompt();
    int[] tail = Arrays.copyOfRange(ids, ids.length - kept, ids.length);
    SamplingParams both = greedy().returnContextLogits(true).promptLogprobs(2).build();
    try (GenerationResult truncated = run(both.toBuilder().truncatePromptTokens(kept).build());
        GenerationResult whole = engine.generate(GenerationRequest.of(tail, both))) {
      assertThat(truncated.promptIds()).containsExactly(tail[0], tail[1], tail[2]);
      assertThat(truncated.contextLogits().rows()).isEqualTo(kept);
      assertThat(truncated.promptLogprobs()).isEqualTo(whole.promptLogprobs()).hasSize(kept);
      for (int row = 0; row < kept; row++) {
        assertThat(truncated.contextLogits().row(row)).isEqualTo(whole.contextLogits().row(row));
      }
    }
  }

  @Test
  void rowsComeWithTheFirstDeltaAloneAndInTheResult() {
    SamplingParams both =
        greedy().returnContextLogits(true).promptLogprobs(2).n(2).seed(3L).temperature(1f).build();
    GenerationHandle handle = engine.submit(GenerationRequest.of(prompt.prompt(), both));
    List<GenerationDelta> deltas = handle.stream().toList();
    try (GenerationResult result = handle.await()) {
      assertThat(deltas.size()).isGreaterThan(2);
      int first = result.outputs().get(0).tokenIds().get(0);
      prompt.checkLogits("delta", deltas.get(0).contextLogits());
      prompt.checkLogprobs("delta", deltas.get(0).promptLogprobs(), first, 2);
      assertThat(result.promptLogprobs()).isEqualTo(deltas.get(0).promptLogprobs());
      for (GenerationDelta later : deltas.subList(1, deltas.size())) {
        assertThat(later.contextLogits()).isNull();
        assertThat(later.promptLogprobs()).isNull();
      }
      deltas.get(0).contextLogits().close();
      assertThatThrownBy(() -> result.contextLogits().row(0))
          .as("the same rows")
          .isInstanceOf(IllegalStateException.class);
    }
  }

  @Test
  void viewsRefuseRowsThatAreNotThere() {
    try (GenerationResult result = run(greedy().returnContextLogits(true).build())) {
      LogitsView rows = result.contextLogits();
      int count = prompt.prompt().length;
      assertThat(rows.row(0).isReadOnly()).isTrue();
      assertThat(rows.row(0).remaining()).isEqualTo(VOCAB);
      for (int row : new int[] {-1, count}) {
        assertThatThrownBy(() -> rows.row(row)).isInstanceOf(IndexOutOfBoundsException.class);
        assertThatThrownBy(() -> rows.copyRow(row, new float[VOCAB]))
            .isInstanceOf(IndexOutOfBoundsException.class);
      }
      assertThatThrownBy(() -> rows.copyRow(0, new float[VOCAB - 1]))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("96");
    }
  }
}
