package dev.halcyon.engine.executor;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.PromptReference;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.executor.StepPlan.Chunk;
import dev.halcyon.engine.logits.BatchDescription;
import dev.halcyon.engine.model.Fixture;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Requests whose steps change between bounded and whole projection, as if batches came and went
 * that rule the bounded one out. Nobody can tell from the results.
 */
@Timeout(60)
public class ContextPathSwitchTest {

  /** What the engines compute on. */
  protected TestBackend backend() {
    return TestBackend.CPU;
  }

  private static final BatchDescription WHOLE = new BatchDescription(false, false, false, true);

  private static final SamplingParams BOTH =
      SamplingParams.builder()
          .temperature(0f)
          .maxTokens(12)
          .ignoreEos(true)
          .returnContextLogits(true)
          .returnGenerationLogits(true)
          .promptLogprobs(5)
          .build();

  private static final List<SamplingParams> KINDS =
      List.of(
          BOTH,
          BOTH.toBuilder().promptLogprobs(null).build(),
          BOTH.toBuilder().returnContextLogits(false).build(),
          BOTH.toBuilder().returnContextLogits(false).promptLogprobs(null).build());

  /** Has one step in a number of them projected whole, and counts what was projected how. */
  private static final class Switch implements Function<List<Chunk>, BatchDescription> {

    private final int period;
    private int steps;
    private int boundedRows;
    private int wholeRows;
    private int mixedSteps;

    /**
     * @param period 0 for none
     */
    Switch(int period) {
      this.period = period;
    }

    @Override
    public BatchDescription apply(List<Chunk> chunks) {
      boolean whole = period > 0 && ++steps % period == 0;
      int rows = chunks.stream().mapToInt(Chunk::contextRows).sum();
      boundedRows += whole ? 0 : rows;
      wholeRows += whole ? rows : 0;
      boolean generates = chunks.stream().anyMatch(c -> c.start() >= c.sequence().promptLength());
      mixedSteps += rows > 0 && generates ? 1 : 0;
      return whole ? WHOLE : BatchDescription.PLAIN;
    }
  }

  /**
   * Families with and without a transform behind the head, and with weights that are not float32.
   */
  @ParameterizedTest(name = "{0}, {1} tokens a step, one in {2} projected whole")
  @CsvSource({"llama2, 7, 2", "gemma2, 7, 2", "cohere2, 33, 2", "llama-bf16, 5, 3", "qwen3, 33, 1"})
  void changingThePathChangesNothing(String name, int maxBatchTokens, int period) {
    Fixture fixture = Fixture.open(name);
    Switch none = new Switch(0);
    Switch some = new Switch(period);
    try (DescribedModel bounded = new DescribedModel(engine(name, maxBatchTokens), none);
        DescribedModel switching = new DescribedModel(engine(name, maxBatchTokens), some)) {
      List<GenerationResult> expected = runAll(bounded, fixture);
      List<GenerationResult> got = runAll(switching, fixture);
      for (int i = 0; i < got.size(); i++) {
        Fixture.Case one = fixture.cases().get(i / KINDS.size());
        assertReference(one, got.get(i));
        assertSame(got.get(i), expected.get(i));
        got.get(i).close();
        expected.get(i).close();
      }
    }
    int rows = fixture.cases().stream().mapToInt(one -> one.promptIds().length).sum();
    assertThat(none.boundedRows).as("three kinds want rows").isEqualTo(3 * rows);
    assertThat(some.boundedRows + some.wholeRows).isEqualTo(3 * rows);
    assertThat(some.wholeRows).isPositive();
    if (period > 1) {
      assertThat(some.boundedRows).isPositive();
    }
    assertThat(some.mixedSteps).isPositive();
  }

  private static List<GenerationResult> runAll(DescribedModel model, Fixture fixture) {
    List<GenerationHandle> handles = new ArrayList<>();
    for (Fixture.Case one : fixture.cases()) {
      for (SamplingParams params : KINDS) {
        handles.add(model.submit(GenerationRequest.of(one.promptIds(), params)));
      }
    }
    return handles.stream().map(GenerationHandle::await).toList();
  }

  private static void assertReference(Fixture.Case one, GenerationResult result) {
    PromptReference reference = PromptReference.of(one.promptIds(), one.logits());
    if (result.contextLogits() != null) {
      reference.checkLogits("switching", result.contextLogits());
    }
    if (result.promptLogprobs() != null) {
      reference.checkLogprobs(
          "switching", result.promptLogprobs(), reference.greedyToken(), BOTH.promptLogprobs());
    }
  }

  private void assertSame(GenerationResult got, GenerationResult expected) {
    assertThat(got.outputs().get(0).tokenIds()).isEqualTo(expected.outputs().get(0).tokenIds());
    if (backend().rounding() == 0) {
      assertThat(got.promptLogprobs()).isEqualTo(expected.promptLogprobs());
    } else {
      Answer.of(got).assertSame(Answer.of(expected));
    }
    assertSameRows(got.contextLogits(), expected.contextLogits());
    assertSameRows(
        got.outputs().get(0).generationLogits(), expected.outputs().get(0).generationLogits());
  }

  private void assertSameRows(LogitsView got, LogitsView expected) {
    if (expected == null) {
      assertThat(got).isNull();
    } else {
      backend().assertSameRows(got, expected);
    }
  }

  private EngineBuilder engine(String name, int maxBatchTokens) {
    return backend()
        .engine()
        .model(Fixture.directory(name))
        .threads(1)
        .maxBatchTokens(maxBatchTokens)
        .maxBatchSize(4)
        .kvCacheTokens(1024)
        .integrityChecks(true);
  }
}
