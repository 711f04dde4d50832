package dev.halcyon.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;

class SamplingParamsTest {

  private static final float[] NOT_FINITE = {
    Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY
  };

  @Test
  void defaultsAreAsDocumented() {
    SamplingParams params = SamplingParams.builder().build();
    assertThat(params.maxTokens()).isEqualTo(32);
    assertThat(params.minTokens()).isZero();
    assertThat(params.n()).isEqualTo(1);
    assertThat(params.detokenize()).isTrue();
    assertThat(params.skipSpecialTokens()).isTrue();
    assertThat(params.includeStopInOutput()).isFalse();
    assertThat(params.ignoreEos()).isFalse();
    assertThat(params.simpleLogprobs()).isFalse();
    assertThat(params.returnContextLogits()).isFalse();
    assertThat(params.returnGenerationLogits()).isFalse();
    assertThat(params.stop()).isEmpty();
    assertThat(params.stopTokenIds()).isEmpty();
    assertThat(params.logitBias()).isEmpty();
    assertThat(
            Arrays.asList(
                params.temperature(),
                params.topK(),
                params.topP(),
                params.minP(),
                params.repetitionPenalty(),
                params.presencePenalty(),
                params.frequencyPenalty(),
                params.seed(),
                params.logprobs(),
                params.promptLogprobs(),
                params.truncatePromptTokens(),
                params.logitsProcessor()))
        .containsOnlyNulls();
    assertThat(params).hasToString("SamplingParams{}");
  }

  /** Each parameter alone with a value that is not its default, zeros and falses among them. */
  private static final List<UnaryOperator<SamplingParams.Builder>> CHANGES =
      List.of(
          b -> b.maxTokens(1),
          b -> b.minTokens(1),
          b -> b.temperature(0),
          b -> b.temperature(0.5f),
          b -> b.topK(0),
          b -> b.topK(7),
          b -> b.topP(1),
          b -> b.minP(0),
          b -> b.repetitionPenalty(1),
          b -> b.presencePenalty(0),
          b -> b.frequencyPenalty(0),
          b -> b.seed(0L),
          b -> b.n(2),
          b -> b.stop("a", "b"),
          b -> b.stopTokenIds(List.of(0)),
          b -> b.includeStopInOutput(true),
          b -> b.ignoreEos(true),
          b -> b.logitBias(Map.of(0, 0f)),
          b -> b.logitsProcessor((prompt, generated, logits) -> logits),
          b -> b.logprobs(0),
          b -> b.promptLogprobs(0),
          b -> b.simpleLogprobs(true),
          b -> b.returnContextLogits(true),
          b -> b.returnGenerationLogits(true),
          b -> b.truncatePromptTokens(1),
          b -> b.detokenize(false),
          b -> b.skipSpecialTokens(false));

  @Test
  void copiesKeepEveryValueAndEqualityTellsThemApart() {
    SamplingParams.Builder all = SamplingParams.builder();
    for (int i = 0; i < CHANGES.size(); i++) {
      SamplingParams changed = CHANGES.get(i).apply(SamplingParams.builder()).build();
      SamplingParams copy = changed.toBuilder().build();
      assertThat(copy).as("change %d", i).isEqualTo(changed).hasSameHashCodeAs(changed);
      assertThat(copy.toString()).isEqualTo(changed.toString()).contains("=");
      assertThat(changed).as("change %d", i).isNotEqualTo(SamplingParams.builder().build());
      SamplingParams.Builder before = all.build().toBuilder();
      CHANGES.get(i).apply(all);
      assertThat(all.build()).as("change %d on the others", i).isNotEqualTo(before.build());
    }
    assertThat(all.build().toBuilder().build()).isEqualTo(all.build());
  }

  @Test
  void falseZeroAndNullAreDistinctAndSurviveCopies() {
    SamplingParams params =
        SamplingParams.builder().temperature(0).logprobs(0).detokenize(false).seed(0L).build();
    SamplingParams copy = params.toBuilder().build();
    assertThat(copy.temperature()).isZero();
    assertThat(copy.logprobs()).isZero();
    assertThat(copy.seed()).isZero();
    assertThat(copy.detokenize()).isFalse();
    assertThat(copy.topK()).isNull();
    SamplingParams unset = copy.toBuilder().temperature(null).logprobs(null).seed(null).build();
    assertThat(unset.temperature()).isNull();
    assertThat(unset.logprobs()).isNull();
    assertThat(unset.seed()).isNull();
  }

  @Test
  void whatIsReturnedOfThePromptTravelsThroughCopiesUnchanged() {
    SamplingParams zero =
        SamplingParams.builder()
            .returnContextLogits(false)
            .promptLogprobs(0)
            .simpleLogprobs(true)
            .build();
    SamplingParams copy = zero.toBuilder().maxTokens(3).build().toBuilder().build();
    assertThat(copy.returnContextLogits()).isFalse();
    assertThat(copy.promptLogprobs()).isZero();
    assertThat(copy.simpleLogprobs()).isTrue();
    SamplingParams unset = copy.toBuilder().promptLogprobs(null).build().toBuilder().build();
    assertThat(unset.promptLogprobs()).as("null is not 0").isNull();
    assertThat(unset.simpleLogprobs()).isTrue();
    assertThat(unset).isNotEqualTo(copy);
    SamplingParams plain = copy.toBuilder().simpleLogprobs(false).build().toBuilder().build();
    assertThat(plain.simpleLogprobs()).isFalse();
    assertThat(plain.promptLogprobs()).isZero();
    SamplingParams full = plain.toBuilder().returnContextLogits(true).build().toBuilder().build();
    assertThat(full.returnContextLogits()).isTrue();
    assertThat(full.toBuilder().returnContextLogits(false).build()).isEqualTo(plain);
  }

  @Test
  void theSimpleFormatHasNoMostLikelyTokens() {
    refused(
        b -> b.simpleLogprobs(true).promptLogprobs(1),
        "promptLogprobs, with simpleLogprobs, is 1, expected 0");
    refused(b -> b.simpleLogprobs(true).logprobs(2), "logprobs, with simpleLogprobs, is 2");
    assertThatCode(() -> SamplingParams.builder().simpleLogprobs(true).logprobs(0).build())
        .doesNotThrowAnyException();
  }

  @Test
  void laterChangesToWhatWasPassedInDoNotShow() {
    List<String> stop = new ArrayList<>(List.of("a"));
    List<Integer> ids = new ArrayList<>(List.of(1));
    Map<Integer, Float> bias = new HashMap<>(Map.of(1, 1f));
    SamplingParams.Builder builder =
        SamplingParams.builder().stop(stop).stopTokenIds(ids).logitBias(bias);
    stop.clear();
    ids.clear();
    bias.clear();
    SamplingParams params = builder.build();
    builder.maxTokens(5).stop(List.of());
    assertThat(params.maxTokens()).isEqualTo(32);
    assertThat(params.stop()).containsExactly("a");
    assertThat(params.stopTokenIds()).containsExactly(1);
    assertThat(params.logitBias()).isEqualTo(Map.of(1, 1f));
    assertThatThrownBy(() -> params.stop().clear())
        .isInstanceOf(UnsupportedOperationException.class);
  }

  @Test
  void countsOutOfRangeAreRefused() {
    refused(b -> b.maxTokens(0), "maxTokens is 0, expected at least 1");
    refused(b -> b.minTokens(-1), "minTokens is -1, expected a number from 0 to");
    refused(b -> b.minTokens(33), "minTokens is 33, expected a number from 0 to maxTokens, 32");
    refused(b -> b.topK(-1), "topK is -1, expected at least 0");
    refused(b -> b.n(0), "n is 0, expected a number from 1 to 1024");
    refused(b -> b.n(1025), "n is 1025");
    refused(b -> b.logprobs(-1), "logprobs is -1, expected at least 0");
    refused(b -> b.promptLogprobs(-1), "promptLogprobs is -1, expected at least 0");
    refused(b -> b.truncatePromptTokens(0), "truncatePromptTokens is 0, expected at least 1");
  }

  @Test
  void numbersOutOfRangeAreRefused() {
    refused(
        b -> b.temperature(-0.1), "temperature is -0.1, expected a finite number of at least 0");
    refused(b -> b.topP(0), "topP is 0.0, expected a number above 0 and at most 1");
    refused(b -> b.topP(-0.5), "topP is -0.5");
    refused(b -> b.topP(1.1), "topP is 1.1");
    refused(b -> b.minP(-0.1), "minP is -0.1, expected a number from 0 to 1");
    refused(b -> b.minP(1.1), "minP is 1.1");
    refused(
        b -> b.repetitionPenalty(0), "repetitionPenalty is 0.0, expected a finite number above 0");
    refused(b -> b.repetitionPenalty(-1), "repetitionPenalty is -1.0");
    for (float value : NOT_FINITE) {
      refused(b -> b.temperature(value), "temperature is " + value);
      refused(b -> b.topP(value), "topP is " + value);
      refused(b -> b.minP(value), "minP is " + value);
      refused(b -> b.repetitionPenalty(value), "repetitionPenalty is " + value);
      refused(b -> b.presencePenalty(value), "presencePenalty is " + value);
      refused(b -> b.frequencyPenalty(value), "frequencyPenalty is " + value);
    }
    refused(b -> b.temperature(1e300), "temperature is Infinity");
  }

  @Test
  void aNumberTooSmallForAFloatDoesNotBecomeZero() {
    // 0 would mean greedy, and be refused as topP.
    SamplingParams params = SamplingParams.builder().temperature(1e-300).topP(1e-300).build();
    assertThat(params.temperature()).isPositive();
    assertThat(params.topP()).isPositive();
    refused(b -> b.temperature(-1e-300), "temperature is -");
    assertThat(SamplingParams.builder().temperature(-0.0).build())
        .isEqualTo(SamplingParams.builder().temperature(0).build());
  }

  @Test
  void collectionsWithNullsOrEmptyTextsAreRefused() {
    refused(b -> b.stop(""), "stop is an empty text");
    refused(b -> b.stop("a", null), "stop is a null");
    refused(b -> b.stop(Collections.singletonList(null)), "stop is a null");
    refused(b -> b.stop((List<String>) null), "stop is null");
    refused(b -> b.stop((String[]) null), "stop is null");
    refused(b -> b.stopTokenIds(null), "stopTokenIds is null");
    refused(b -> b.stopTokenIds(List.of(-1)), "stopTokenIds is token id -1");
    refused(b -> b.stopTokenIds(Collections.singletonList(null)), "stopTokenIds is token id null");
    refused(b -> b.logitBias(null), "logitBias is null");
    refused(b -> b.logitBias(Map.of(-1, 1f)), "logitBias is token id -1");
    refused(b -> b.logitBias(Map.of(7, Float.NaN)), "logitBias is NaN for token 7");
    refused(
        b -> b.logitBias(Map.of(7, Float.POSITIVE_INFINITY)), "logitBias is Infinity for token 7");
    refused(b -> b.logitBias(Collections.singletonMap(7, null)), "logitBias is null for token 7");
    assertThatCode(
            () -> SamplingParams.builder().logitBias(Map.of(7, Float.NEGATIVE_INFINITY)).build())
        .doesNotThrowAnyException();
  }

  @Test
  void whatTheModelCanNotServeIsRefused() {
    SamplingParams fits =
        SamplingParams.builder()
            .topK(100)
            .logprobs(100)
            .promptLogprobs(100)
            .logitBias(Map.of(99, 1f))
            .stopTokenIds(List.of(99))
            .build();
    assertThatCode(() -> fits.requireFits(100)).doesNotThrowAnyException();
    assertThatCode(() -> SamplingParams.builder().build().requireFits(1))
        .doesNotThrowAnyException();
    misfit(b -> b.topK(101), "topK is 101, expected at most the vocabulary's size, 100");
    misfit(b -> b.logprobs(101), "logprobs is 101");
    misfit(b -> b.promptLogprobs(101), "promptLogprobs is 101");
    misfit(b -> b.logitBias(Map.of(100, 1f)), "logitBias is token id 100, expected ids below");
    misfit(b -> b.stopTokenIds(List.of(1, 100)), "stopTokenIds is token id 100");
  }

  private static void misfit(UnaryOperator<SamplingParams.Builder> change, String said) {
    SamplingParams params = change.apply(SamplingParams.builder()).build();
    illegal(() -> params.requireFits(100), said);
  }

  private static void refused(UnaryOperator<SamplingParams.Builder> change, String said) {
    illegal(() -> change.apply(SamplingParams.builder()).build(), said);
  }

  private static void illegal(ThrowingCallable call, String said) {
    assertThatThrownBy(call)
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining(said);
  }
}
