package dev.halcyon.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Requests and options that can't be right: a clear error each, and the engine goes on. */
class EngineBadInputTest {

  @TempDir static Path directory;
  private static Engine engine;

  @BeforeAll
  static void open() {
    Path checkpoint = TinyCheckpoint.write(directory.resolve("tiny"));
    engine =
        Engine.builder()
            .model(checkpoint)
            .maxBatchSize(4)
            .kvCacheTokens(128)
            .integrityChecks(true)
            .build();
  }

  @AfterAll
  static void close() {
    engine.close();
  }

  @AfterEach
  void theEngineStillWorks() {
    assertThat(engine.generate("Hello", params().build()).outputs().get(0).tokenIds()).hasSize(2);
    assertThat(engine.metrics().waitingSequences()).isZero();
  }

  private static SamplingParams.Builder params() {
    return SamplingParams.builder().maxTokens(2).temperature(0f).ignoreEos(true);
  }

  private static void refused(
      GenerationRequest request, Class<? extends Throwable> type, String... words) {
    var refusal = assertThatThrownBy(() -> engine.submit(request)).isInstanceOf(type);
    for (String word : words) {
      refusal.hasMessageContaining(word);
    }
  }

  @Test
  void emptyPrompt() {
    refused(
        GenerationRequest.of(new int[0], params().build()),
        IllegalArgumentException.class,
        "prompt is empty");
  }

  @Test
  void tokenIdOutOfRange() {
    for (int id : new int[] {-1, TinyCheckpoint.VOCAB, Integer.MAX_VALUE}) {
      refused(
          GenerationRequest.of(new int[] {5, id}, params().build()),
          IllegalArgumentException.class,
          "prompt token 1",
          String.valueOf(id),
          "448");
    }
  }

  @Test
  void promptLongerThanTheContext() {
    int[] prompt = new int[TinyCheckpoint.MAX_POSITIONS];
    refused(
        GenerationRequest.of(prompt, params().build()),
        RequestTooLargeException.class,
        "256",
        "truncatePromptTokens");
    SamplingParams truncated = params().truncatePromptTokens(7).build();
    assertThat(engine.generate(GenerationRequest.of(prompt, truncated)).promptIds()).hasSize(7);
  }

  @Test
  void requestThatCanNeverFitTheCache() {
    refused(
        GenerationRequest.of(new int[120], params().maxTokens(10).build()),
        RequestTooLargeException.class,
        "KV blocks",
        "9",
        "8");
    refused(
        GenerationRequest.of(new int[33], params().maxTokens(48).n(3).build()),
        RequestTooLargeException.class,
        "KV blocks");
    refused(
        GenerationRequest.of(new int[3], params().n(5).build()),
        RequestTooLargeException.class,
        "maxBatchSize");
  }

  @Test
  void whatTheVocabularyDoesNotHave() {
    refused(
        GenerationRequest.of("a", params().temperature(1f).topK(449).build()),
        IllegalArgumentException.class,
        "topK",
        "448");
    refused(
        GenerationRequest.of("a", params().logitBias(Map.of(448, 1f)).build()),
        IllegalArgumentException.class,
        "logitBias",
        "448");
    refused(
        GenerationRequest.of("a", params().logprobs(449).build()),
        IllegalArgumentException.class,
        "logprobs");
    refused(
        GenerationRequest.of("a", params().stopTokenIds(List.of(500)).build()),
        IllegalArgumentException.class,
        "stopTokenIds",
        "500");
  }

  @Test
  void chatWithoutATemplate() {
    refused(
        GenerationRequest.of(List.of(ChatMessage.user("Hello")), params().build()),
        UnsupportedRequestException.class,
        "chat template");
  }

  @Test
  void textAndStopStringsWithoutATokenizer() {
    Path bare = TinyCheckpoint.fixture("models/llama2");
    try (Engine ids = Engine.builder().model(bare).build()) {
      assertThatThrownBy(() -> ids.generate("a"))
          .isInstanceOf(UnsupportedRequestException.class)
          .hasMessageContaining("tokenizer.json");
      assertThatThrownBy(
              () -> ids.submit(GenerationRequest.of(new int[] {1}, params().stop("x").build())))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("stop");
      GenerationOutput output =
          ids.generate(GenerationRequest.of(new int[] {1}, params().build())).outputs().get(0);
      assertThat(output.tokenIds()).hasSize(2);
      assertThat(output.text()).isEmpty();
    }
  }

  @Test
  void stopStringsWithoutDetokenising() {
    refused(
        GenerationRequest.of("a", params().stop("x").detokenize(false).build()),
        IllegalArgumentException.class,
        "detokenize");
  }

  @Test
  void timeoutsThatAreNotPositive() {
    for (Duration timeout : new Duration[] {Duration.ZERO, Duration.ofSeconds(-1)}) {
      assertThatThrownBy(() -> GenerationRequest.builder("a").timeout(timeout))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("timeout");
    }
  }

  @Test
  void optionsThatContradict() {
    assertThatThrownBy(() -> Engine.builder().build())
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("model");
    assertThatThrownBy(
            () -> Engine.builder().defaultModel().maxBatchSize(8).maxBatchTokens(7).build())
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("maxBatchTokens 7");
    assertThatThrownBy(() -> Engine.builder().kvBlockSize(12))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("power of two");
    assertThatThrownBy(() -> Engine.builder().kvCacheFraction(Double.NaN))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("kvCacheFraction");
    assertThatThrownBy(() -> Engine.builder().defaultModel().maxSequenceLength(1025).build())
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("1024");
    assertThatThrownBy(() -> Engine.builder().defaultModel().backend(BackendChoice.CUDA).build())
        .isInstanceOf(EngineException.class)
        .hasMessageContaining("cuda");
  }

  @Test
  void noDirectoryAndNoCheckpoint() throws Exception {
    assertThatThrownBy(() -> Engine.builder().model(directory.resolve("nowhere")).build())
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContaining("nowhere");
    Path empty = Files.createDirectories(directory.resolve("empty"));
    assertThatThrownBy(() -> Engine.builder().model(empty).build())
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContaining("config.json");
  }

  @Test
  void memoryTooSmallForTheEngine() {
    for (long bytes : new long[] {1, 100_000, 1_000_000, 9_000_000}) {
      assertThatThrownBy(() -> Engine.builder().defaultModel().deviceMemoryBytes(bytes).build())
          .isInstanceOf(EngineException.class)
          .hasMessageContaining("bytes");
    }
  }

  @Test
  void memoryBudgetsAreNotNegative() {
    assertThatThrownBy(() -> Engine.builder().deviceMemoryBytes(-1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("deviceMemoryBytes");
    assertThatThrownBy(() -> Engine.builder().hostMemoryBytes(-1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("hostMemoryBytes");
  }

  @Test
  void submitAfterClose() {
    Engine closed = Engine.builder().model(directory.resolve("tiny")).build();
    closed.close();
    assertThatThrownBy(() -> closed.generate("a")).isInstanceOf(EngineClosedException.class);
  }

  @Test
  void halfPrecisionOnTheCpu() {
    EngineBuilder builder =
        Engine.builder().model(directory.resolve("tiny")).backend(BackendChoice.CPU);
    assertThatThrownBy(() -> builder.dtype(DTypeChoice.BF16).build())
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContainingAll("dtype BF16", "CPU", "F32");
    builder.dtype(DTypeChoice.F32).build().close();
  }
}
