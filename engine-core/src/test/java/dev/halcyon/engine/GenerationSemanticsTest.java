package dev.halcyon.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Flow;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.TestInstance.Lifecycle;
import org.junit.jupiter.api.Timeout;

/**
 * What results and deltas mean. The greedy story of the reference begins ", there was a little girl
 * named Lily. She loved to play with her toys", with one token a word.
 */
@Timeout(60)
@TestInstance(Lifecycle.PER_CLASS)
public class GenerationSemanticsTest {

  /** What the engines compute on. */
  protected TestBackend backend() {
    return TestBackend.CPU;
  }

  private static final String PROMPT = "Once upon a time";
  private static Engine engine;

  @BeforeAll
  void open() {
    engine = backend().engine().defaultModel().integrityChecks(true).build();
  }

  @AfterAll
  static void close() {
    engine.close();
  }

  private static SamplingParams.Builder greedy() {
    return SamplingParams.builder().temperature(0f).maxTokens(16);
  }

  private static GenerationOutput run(SamplingParams params) {
    return engine.generate(PROMPT, params).outputs().get(0);
  }

  @Test
  void stopStringAcrossTokensTrimsEverythingTogether() {
    GenerationOutput output =
        run(
            greedy()
                .stop("girl named", "unrelated")
                .logprobs(1)
                .returnGenerationLogits(true)
                .build());
    assertThat(output.text()).isEqualTo(", there was a little ");
    assertThat(output.finishReason()).isEqualTo(FinishReason.STOP);
    assertThat(output.stopString()).isEqualTo("girl named");
    assertThat(output.stopTokenId()).isNull();
    // ids 12 396 281 259 387 are ", there was a little"; the next, " girl", still gives the space.
    assertThat(output.tokenIds()).containsExactly(12, 396, 281, 259, 387, 455);
    assertThat(output.logprobs()).hasSize(6);
    assertThat(output.generationLogits().rows()).isEqualTo(6);
  }

  @Test
  void stopStringMayStayInTheOutput() {
    GenerationOutput output = run(greedy().stop("girl na").includeStopInOutput(true).build());
    assertThat(output.text()).isEqualTo(", there was a little girl na");
    assertThat(output.tokenIds()).containsExactly(12, 396, 281, 259, 387, 455, 423);
  }

  @Test
  void stopIdIsTrimmedUnlessIncluded() {
    GenerationOutput without = run(greedy().stopTokenIds(List.of(387)).logprobs(0).build());
    assertThat(without.tokenIds()).containsExactly(12, 396, 281, 259);
    assertThat(without.text()).isEqualTo(", there was a");
    assertThat(without.stopTokenId()).isEqualTo(387);
    assertThat(without.logprobs()).hasSize(4);
    GenerationOutput with =
        run(greedy().stopTokenIds(List.of(387)).includeStopInOutput(true).build());
    assertThat(with.tokenIds()).containsExactly(12, 396, 281, 259, 387);
    assertThat(with.text()).isEqualTo(", there was a little");
  }

  @Test
  void heldBackTextComesOutWhenItIsNoStop() {
    List<GenerationDelta> deltas =
        engine
            .submit(GenerationRequest.of(PROMPT, greedy().stop("little girl named Tom").build()))
            .stream()
            .toList();
    StringBuilder text = new StringBuilder();
    deltas.forEach(delta -> text.append(delta.text()));
    assertThat(text.toString()).startsWith(", there was a little girl named Lily.");
    // " little" waits until "Lily" shows that it is no stop.
    assertThat(deltas).anyMatch(delta -> delta.tokenIds().size() > 1);
    assertThat(deltas).filteredOn(delta -> delta.finishReason() != null).hasSize(1);
    assertThat(deltas.get(deltas.size() - 1).finishReason()).isEqualTo(FinishReason.LENGTH);
  }

  @Test
  void minTokensPutsOffStops() {
    GenerationOutput output = run(greedy().stop("there").minTokens(6).build());
    assertThat(output.finishReason()).isEqualTo(FinishReason.LENGTH);
    assertThat(output.tokenIds()).hasSize(16);
    GenerationOutput barred = run(greedy().stopTokenIds(List.of(396)).minTokens(3).build());
    assertThat(barred.tokenIds().subList(0, 2)).doesNotContain(396);
  }

  @Test
  void samplesOfARequestDifferAndRepeat() {
    SamplingParams params =
        SamplingParams.builder().temperature(0.9f).n(4).seed(3L).maxTokens(24).build();
    GenerationResult first = engine.generate(PROMPT, params);
    List<String> texts = first.outputs().stream().map(GenerationOutput::text).toList();
    assertThat(texts).doesNotHaveDuplicates();
    List<GenerationRequest> crowd = new ArrayList<>();
    for (int i = 0; i < 6; i++) {
      crowd.add(
          GenerationRequest.of("The cat number " + i, params.toBuilder().seed((long) i).build()));
    }
    crowd.add(GenerationRequest.of(PROMPT, params));
    GenerationResult again = engine.generate(crowd).get(6);
    assertThat(again.outputs().stream().map(GenerationOutput::text).toList()).isEqualTo(texts);
    for (int i = 0; i < 4; i++) {
      assertThat(first.outputs().get(i).index()).isEqualTo(i);
    }
  }

  @Test
  void nothingSetFollowsTheCheckpoint() {
    // generation_config.json of the default model samples, at temperature 0.5 and topP 0.95.
    SamplingParams unset = SamplingParams.builder().maxTokens(24).seed(11L).build();
    SamplingParams spelled = unset.toBuilder().temperature(0.5f).topP(0.95f).build();
    assertThat(run(unset).text()).isEqualTo(run(spelled).text());
    assertThat(run(unset).text()).isNotEqualTo(run(unset.toBuilder().seed(12L).build()).text());
  }

  @Test
  void prefixReuseShowsInUsageAndChangesNothing() {
    String prompt = "One day, a little boy named Tim went to the park. He saw a big dog and said,";
    SamplingParams params = greedy().logprobs(2).build();
    GenerationResult first = engine.generate(prompt, params);
    GenerationResult second = engine.generate(prompt, params);
    assertThat(second.usage().cachedPromptTokens()).isEqualTo(16);
    assertThat(second.usage().promptTokens()).isEqualTo(first.usage().promptTokens());
    assertThat(second.outputs().get(0).tokenIds()).isEqualTo(first.outputs().get(0).tokenIds());
    GenerationResult salted =
        engine.generate(
            GenerationRequest.builder(prompt).params(params).cacheSalt("other").build());
    assertThat(salted.usage().cachedPromptTokens()).isZero();
  }

  @Test
  void usageAndTimingAreFilledIn() {
    GenerationResult result = engine.generate(PROMPT, greedy().build());
    assertThat(result.promptIds()).containsExactly(0, 416, 432, 259, 394);
    assertThat(result.usage()).isEqualTo(new Usage(5, 0, 16));
    RequestTiming timing = result.timing();
    assertThat(timing.queueTime()).isGreaterThanOrEqualTo(java.time.Duration.ZERO);
    assertThat(timing.timeToFirstToken()).isBetween(timing.queueTime(), timing.total());
    assertThat(timing.tokensPerSecond()).isPositive();
  }

  @Test
  void aSlowSubscriberDelaysNobodyAndLosesNothing() throws Exception {
    GenerationHandle slow = engine.submit(GenerationRequest.of(PROMPT, greedy().build()));
    LinkedBlockingQueue<Object> seen = new LinkedBlockingQueue<>();
    CountDownLatch block = new CountDownLatch(1);
    Flow.Subscription[] held = new Flow.Subscription[1];
    slow.deltas()
        .subscribe(
            new Flow.Subscriber<>() {
              @Override
              public void onSubscribe(Flow.Subscription subscription) {
                held[0] = subscription;
                subscription.request(2);
              }

              @Override
              public void onNext(GenerationDelta delta) {
                seen.add(delta);
                try {
                  block.await();
                } catch (InterruptedException e) {
                  throw new IllegalStateException(e);
                }
              }

              @Override
              public void onError(Throwable error) {
                seen.add(error);
              }

              @Override
              public void onComplete() {
                seen.add("complete");
              }
            });
    assertThat(engine.generate("The cat", greedy().build()).outputs()).hasSize(1);
    assertThat(slow.await().outputs().get(0).tokenIds()).hasSize(16);
    assertThat(seen).hasSize(1);
    block.countDown();
    Thread.sleep(100);
    assertThat(seen).as("no more than was asked for").hasSize(2);
    held[0].request(Long.MAX_VALUE);
    StringBuilder text = new StringBuilder();
    for (Object next = seen.poll(5, TimeUnit.SECONDS);
        !"complete".equals(next);
        next = seen.poll(5, TimeUnit.SECONDS)) {
      text.append(((GenerationDelta) next).text());
    }
    assertThat(text.toString()).isEqualTo(slow.await().outputs().get(0).text());
    assertThatThrownBy(() -> slow.stream().toList())
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("one");
  }

  @Test
  void logitsAreGoneOnceClosedAndOutliveTheEngine() {
    GenerationResult result;
    try (Engine other = backend().engine().defaultModel().build()) {
      result = other.generate(PROMPT, greedy().returnGenerationLogits(true).build());
    }
    LogitsView logits = result.outputs().get(0).generationLogits();
    assertThat(logits.row(0).remaining()).isEqualTo(2048);
    assertThat(logits.row(0).isReadOnly()).isTrue();
    assertThatThrownBy(() -> logits.row(16)).isInstanceOf(IndexOutOfBoundsException.class);
    assertThatThrownBy(() -> logits.copyRow(0, new float[2047]))
        .isInstanceOf(IllegalArgumentException.class);
    result.close();
    result.close();
    assertThatThrownBy(() -> logits.row(0)).isInstanceOf(IllegalStateException.class);
  }
}
