package dev.halcyon.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.TestInstance.Lifecycle;
import org.junit.jupiter.api.Timeout;

/**
 * What was asked of the prompt comes with the first delta and in the result. The greedy story of
 * the reference begins ", there was a little girl named Lily. She loved to play with her toys".
 */
@Timeout(60)
@TestInstance(Lifecycle.PER_CLASS)
public class ContextLogitsStreamingTest {

  /** What the engines compute on. */
  protected TestBackend backend() {
    return TestBackend.CPU;
  }

  private static final String PROMPT = "Once upon a time";

  /** The ids of the prompt, with the one that begins a text. */
  private static final int PROMPT_LENGTH = 5;

  private static Engine engine;

  @BeforeAll
  void open() {
    engine = backend().engine().defaultModel().maxBatchTokens(64).maxBatchSize(8).build();
  }

  @AfterAll
  static void close() {
    engine.close();
  }

  private static SamplingParams.Builder both() {
    return SamplingParams.builder()
        .temperature(0f)
        .maxTokens(16)
        .returnContextLogits(true)
        .promptLogprobs(2);
  }

  /** Runs a request, with what holds of the deltas of each that wants its prompt's logits. */
  private static List<GenerationDelta> stream(SamplingParams params) {
    GenerationHandle handle = engine.submit(GenerationRequest.of(PROMPT, params));
    List<GenerationDelta> deltas = handle.stream().toList();
    try (GenerationResult result = handle.await()) {
      GenerationDelta first = deltas.get(0);
      assertThat(first.contextLogits()).isNotNull().isSameAs(result.contextLogits());
      assertThat(first.contextLogits().rows()).isEqualTo(PROMPT_LENGTH);
      assertThat(first.promptLogprobs()).hasSize(PROMPT_LENGTH);
      assertThat(List.copyOf(first.promptLogprobs())).isEqualTo(result.promptLogprobs());
      for (GenerationDelta later : deltas.subList(1, deltas.size())) {
        assertThat(later.contextLogits()).isNull();
        assertThat(later.promptLogprobs()).isNull();
      }
    }
    assertThatThrownBy(() -> deltas.get(0).contextLogits().row(0))
        .isInstanceOf(IllegalStateException.class);
    return deltas;
  }

  @Test
  void theFirstDeltaHasThem() {
    List<GenerationDelta> deltas = stream(both().build());
    assertThat(deltas.get(0).tokenIds()).containsExactly(12);
    assertThat(deltas.get(0).promptLogprobs().get(PROMPT_LENGTH - 1).tokenId()).isEqualTo(12);
  }

  @Test
  void theFirstDeltaHasThemWhenStopStringsHoldTextBack() {
    List<GenerationDelta> deltas =
        stream(both().stop(", there was a little girl named Tom").build());
    // All text waits until "Lily" shows that it is no stop.
    assertThat(deltas.get(0).tokenIds()).hasSizeGreaterThan(6);
    assertThat(deltas.get(0).promptLogprobs().get(PROMPT_LENGTH - 1).tokenId()).isEqualTo(12);
  }

  @Test
  void theOnlyDeltaHasThemWhenTheFirstTokenEndsTheOutput() {
    List<GenerationDelta> deltas = stream(both().stopTokenIds(List.of(12)).build());
    assertThat(deltas).hasSize(1);
    assertThat(deltas.get(0).tokenIds()).isEmpty();
    assertThat(deltas.get(0).finishReason()).isEqualTo(FinishReason.STOP);
    assertThat(deltas.get(0).promptLogprobs().get(PROMPT_LENGTH - 1).tokenId())
        .as("the token that ended the output is scored all the same")
        .isEqualTo(12);
  }

  @Test
  void theOnlyDeltaHasThemWhenItsTextIsAStopString() {
    List<GenerationDelta> deltas = stream(both().stop(",").build());
    assertThat(deltas).hasSize(1);
    assertThat(deltas.get(0).text()).isEmpty();
  }

  @Test
  void oneDeltaOfAllSamplesHasThem() {
    List<GenerationDelta> deltas = stream(both().temperature(0.9f).seed(5L).n(4).build());
    assertThat(deltas.stream().map(GenerationDelta::index).distinct()).hasSize(4);
    int scored = deltas.get(0).promptLogprobs().get(PROMPT_LENGTH - 1).tokenId();
    int firstOfFirst =
        deltas.stream()
            .filter(delta -> delta.index() == 0)
            .findFirst()
            .orElseThrow()
            .tokenIds()
            .get(0);
    assertThat(scored).isEqualTo(firstOfFirst);
  }

  @Test
  void theFirstDeltaHasThemWithoutText() {
    List<GenerationDelta> deltas = stream(both().detokenize(false).build());
    assertThat(deltas.get(0).tokenIds()).containsExactly(12);
    assertThat(deltas.get(0).text()).isEmpty();
  }

  @Test
  void noDeltaComesBeforeThePromptIsComputed() {
    // 130 rows at 64 a step: the third step is the first to sample.
    int[] prompt = new int[130];
    for (int i = 0; i < prompt.length; i++) {
      prompt[i] = 300 + i;
    }
    long steps = engine.metrics().steps();
    GenerationHandle handle =
        engine.submit(GenerationRequest.of(prompt, both().maxTokens(1).build()));
    List<GenerationDelta> deltas = handle.stream().toList();
    assertThat(deltas).hasSize(1);
    assertThat(deltas.get(0).contextLogits().rows()).isEqualTo(130);
    assertThat(deltas.get(0).promptLogprobs()).hasSize(130);
    assertThat(handle.await().usage().generatedTokens()).isEqualTo(1);
    assertThat(engine.metrics().steps() - steps).isEqualTo(3);
    handle.await().close();
  }

  @Test
  void subscribersThatAreSlowOrAbsentHoldNothingOnceTheResultIsClosed() throws Exception {
    long idle = engine.metrics().deviceMemory().results();
    List<GenerationHandle> handles = new ArrayList<>();
    CountDownLatch subscribed = new CountDownLatch(8);
    for (int i = 0; i < 16; i++) {
      GenerationHandle handle = engine.submit(GenerationRequest.of(PROMPT, both().build()));
      handles.add(handle);
      if (i % 2 == 0) {
        handle.deltas().subscribe(new Idle(subscribed));
      }
    }
    assertThat(subscribed.await(10, TimeUnit.SECONDS)).isTrue();
    for (GenerationHandle handle : handles) {
      handle.await();
    }
    assertThat(engine.metrics().deviceMemory().results()).isGreaterThan(idle);
    for (GenerationHandle handle : handles) {
      handle.await().close();
    }
    assertThat(engine.metrics().deviceMemory().results()).isEqualTo(idle);
    assertThat(engine.metrics().hostMemoryUsed()).isZero();
    GenerationDelta late = handles.get(1).stream().findFirst().orElseThrow();
    assertThat(late.promptLogprobs()).hasSize(PROMPT_LENGTH);
    assertThatThrownBy(() -> late.contextLogits().row(0)).hasMessageContaining("closed");
  }

  /** A subscriber that never asks for anything. */
  private record Idle(CountDownLatch subscribed) implements Flow.Subscriber<GenerationDelta> {

    @Override
    public void onSubscribe(Flow.Subscription subscription) {
      subscribed.countDown();
    }

    @Override
    public void onNext(GenerationDelta delta) {
      throw new IllegalStateException("nothing was asked for");
    }

    @Override
    public void onError(Throwable error) {
      throw new IllegalStateException(error);
    }

    @Override
    public void onComplete() {
      throw new IllegalStateException("deltas are left");
    }
  }
}
