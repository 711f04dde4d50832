package dev.halcyon.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.TokenLogprobs.Entry;
import java.nio.FloatBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Which parameters of split requests are refused, each with the name of what is wrong. */
class DisaggParamsTest {

  private static final int VOCAB = 10;
  private static final int[] PROMPT = {1, 2, 3};
  private static final KvDescriptor KV = new KvDescriptor(new byte[] {1});

  @ParameterizedTest
  @ValueSource(strings = {"", "a b", "\u00e9", "a\n"})
  void aRequestIdIsPrintable(String id) {
    assertThatThrownBy(() -> DisaggParams.contextOnly(id))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith("requestId");
  }

  @Test
  void aRequestIdIsBounded() {
    DisaggParams.contextOnly("x".repeat(128));
    assertThatThrownBy(() -> DisaggParams.contextOnly("x".repeat(129)))
        .hasMessageStartingWith("requestId");
  }

  @Test
  void onlyTheGenerationSideTakesResults() {
    for (DisaggRequestType type :
        List.of(DisaggRequestType.CONTEXT_ONLY, DisaggRequestType.CONTEXT_AND_GENERATION)) {
      assertThatThrownBy(() -> DisaggParams.builder(type, "r").firstGenTokens(List.of(1)).build())
          .hasMessageContaining("takes no results");
      assertThatThrownBy(() -> DisaggParams.builder(type, "r").kvDescriptor(KV).build())
          .hasMessageContaining("takes no results");
    }
  }

  @Test
  void theGenerationSideNeedsTokensAndKeys() {
    assertThatThrownBy(() -> generation().firstGenTokens(List.of()).build())
        .hasMessageStartingWith("firstGenTokens");
    assertThatThrownBy(() -> generation().kvDescriptor(null).build())
        .hasMessageStartingWith("kvDescriptor");
    assertThatThrownBy(() -> generation().firstGenLogprobs(List.of()).build())
        .hasMessageStartingWith("firstGenLogprobs");
    assertThatThrownBy(() -> generation().firstGenLogits(List.of()).build())
        .hasMessageStartingWith("firstGenLogits");
    assertThatThrownBy(() -> generation().firstGenLogprobs(List.of(logprobs(4))).build())
        .hasMessageStartingWith("firstGenLogprobs[0] scores token 4");
  }

  @Test
  void whatIsAskedForMustBeGiven() {
    DisaggParams bare = generation().build();
    refused(bare, SamplingParams.builder().logprobs(0), "firstGenLogprobs");
    refused(bare, SamplingParams.builder().returnGenerationLogits(true), "firstGenLogits");
    refused(bare, SamplingParams.builder().returnContextLogits(true), "contextLogits");
    refused(bare, SamplingParams.builder().promptLogprobs(0), "promptLogprobs");
    refused(bare, SamplingParams.builder().n(2).temperature(1.0), "firstGenTokens");
    DisaggChecks.requireFits(bare, SamplingParams.builder().build(), PROMPT, VOCAB, true);
  }

  @Test
  void whatIsGivenMustFit() {
    SamplingParams.Builder plain = SamplingParams.builder();
    refused(generation().firstGenTokens(List.of(VOCAB)).build(), plain, "firstGenTokens");
    refused(generation().firstGenLogits(List.of(view(2, VOCAB))).build(), plain, "firstGenLogits");
    refused(generation().firstGenLogits(List.of(view(1, 9))).build(), plain, "firstGenLogits");
    refused(generation().contextLogits(view(2, VOCAB)).build(), plain, "contextLogits");
    refused(generation().promptLogprobs(List.of(logprobs(1))).build(), plain, "promptLogprobs");
    TokenLogprobs foreign =
        new TokenLogprobs(5, Map.of(5, new Entry(0, 1), VOCAB, new Entry(0, 2)));
    refused(generation().firstGenLogprobs(List.of(foreign)).build(), plain, "firstGenLogprobs");
    refused(generation().seed(1L).build(), SamplingParams.builder().seed(2L), "seed");
  }

  @Test
  void anEngineWithoutATransportRefusesHalves(@TempDir Path directory) {
    try (Engine engine =
        Engine.builder().model(TinyCheckpoint.write(directory)).threads(1).build()) {
      GenerationRequest.Builder request = GenerationRequest.builder(PROMPT);
      assertThatThrownBy(
              () -> engine.submit(request.disaggParams(DisaggParams.contextOnly("r")).build()))
          .isInstanceOf(UnsupportedRequestException.class)
          .hasMessageContaining("kvTransport");
      assertThatThrownBy(() -> engine.submit(request.disaggParams(generation().build()).build()))
          .isInstanceOf(UnsupportedRequestException.class);
      DisaggParams whole =
          DisaggParams.builder(DisaggRequestType.CONTEXT_AND_GENERATION, "r").build();
      assertThat(engine.generate(request.disaggParams(whole).build()).outputs().get(0).tokenIds())
          .isNotEmpty();
    }
  }

  private static void refused(DisaggParams disagg, SamplingParams.Builder params, String name) {
    assertThatThrownBy(() -> DisaggChecks.requireFits(disagg, params.build(), PROMPT, VOCAB, true))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith(name);
  }

  private static DisaggParams.Builder generation() {
    return DisaggParams.builder(DisaggRequestType.GENERATION_ONLY, "r")
        .firstGenTokens(List.of(5))
        .kvDescriptor(KV);
  }

  private static TokenLogprobs logprobs(int token) {
    return new TokenLogprobs(token, Map.of(token, new Entry(-1, 1)));
  }

  private static LogitsView view(int rows, int vocabSize) {
    return new LogitsView() {
      @Override
      public int rows() {
        return rows;
      }

      @Override
      public int vocabSize() {
        return vocabSize;
      }

      @Override
      public FloatBuffer row(int index) {
        return FloatBuffer.allocate(vocabSize);
      }

      @Override
      public void copyRow(int index, float[] to) {}

      @Override
      public void close() {}
    };
  }
}
