package dev.halcyon.engine.disagg.http;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.JsonValue;
import com.openai.core.http.StreamResponse;
import com.openai.errors.BadRequestException;
import com.openai.errors.NotFoundException;
import com.openai.errors.UnauthorizedException;
import com.openai.helpers.ChatCompletionAccumulator;
import com.openai.models.chat.completions.ChatCompletion;
import com.openai.models.chat.completions.ChatCompletionChunk;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.chat.completions.ChatCompletionStreamOptions;
import com.openai.models.completions.Completion;
import com.openai.models.completions.CompletionCreateParams;
import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.ChatMessage;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.TokenLogprobs;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** OpenAI's own client for Java, as it comes, gets what the engine gives. */
class OpenAiClientTest {

  private static final String KEY = "sk-test";
  private static final String PROMPT = "Once upon a time";

  private static TestServer server;
  private static TestServer chatServer;
  private static OpenAIClient client;
  private static OpenAIClient chatClient;

  @BeforeAll
  static void start(@TempDir Path directory) throws Exception {
    HttpOptions options = TestServer.options().apiKey(KEY).build();
    server = new TestServer(TestServer.defaultModel().prefixReuse(false).build(), options);
    Path tiny = TinyCheckpoint.write(directory.resolve("tiny"));
    Files.writeString(
        tiny.resolve("chat_template.jinja"),
        "{% for m in messages %}{% if m.content == 'boom' %}{{ raise_exception('no booms') }}"
            + "{% endif %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:");
    Engine chatEngine = Engine.builder().model(tiny).backend(BackendChoice.CPU).threads(2).build();
    chatServer = new TestServer(chatEngine, options);
    client = client(server, KEY);
    chatClient = client(chatServer, KEY);
  }

  @AfterAll
  static void stop() {
    client.close();
    chatClient.close();
    for (TestServer each : List.of(server, chatServer)) {
      each.close();
      each.engine.close();
    }
  }

  private static OpenAIClient client(TestServer of, String key) {
    return OpenAIOkHttpClient.builder()
        .baseUrl(of.service.url() + "/v1")
        .apiKey(key)
        .maxRetries(0)
        .build();
  }

  private static CompletionCreateParams.Builder completion() {
    return CompletionCreateParams.builder()
        .model("default")
        .prompt(PROMPT)
        .maxTokens(12)
        .temperature(0.0);
  }

  private static SamplingParams.Builder greedy() {
    return SamplingParams.builder().maxTokens(12).temperature(0);
  }

  private static ChatCompletionCreateParams.Builder chat() {
    return ChatCompletionCreateParams.builder()
        .model("tiny")
        .addSystemMessage("be kind")
        .addUserMessage("hello there")
        .maxCompletionTokens(10)
        .temperature(0.0);
  }

  private static GenerationResult chatExpected(int top) {
    return chatServer.engine.chat(
        List.of(ChatMessage.system("be kind"), ChatMessage.user("hello there")),
        SamplingParams.builder().maxTokens(10).temperature(0).logprobs(top).build());
  }

  @Test
  void completesAPrompt() {
    Completion got = client.completions().create(completion().logprobs(2).build());
    GenerationResult expected = server.engine.generate(PROMPT, greedy().logprobs(2).build());
    assertThat(got.choices().get(0).text()).isEqualTo(expected.text());
    assertThat(got.choices().get(0).finishReason().toString()).isEqualTo("length");
    List<Double> logprobs =
        expected.outputs().get(0).logprobs().stream()
            .map(TokenLogprobs::chosen)
            .map(entry -> Double.valueOf(Float.toString(entry.logprob())))
            .toList();
    assertThat(got.choices().get(0).logprobs().orElseThrow().tokenLogprobs().orElseThrow())
        .isEqualTo(logprobs);
    assertThat(
            String.join("", got.choices().get(0).logprobs().orElseThrow().tokens().orElseThrow()))
        .isEqualTo(expected.text());
    assertThat(got.usage().orElseThrow().completionTokens()).isEqualTo(12);
    assertThat(got.usage().orElseThrow().promptTokens()).isEqualTo(expected.usage().promptTokens());
  }

  @Test
  void streamsACompletion() {
    StringBuilder text = new StringBuilder();
    List<Completion> chunks = new ArrayList<>();
    try (StreamResponse<Completion> stream =
        client
            .completions()
            .createStreaming(
                completion()
                    .streamOptions(ChatCompletionStreamOptions.builder().includeUsage(true).build())
                    .build())) {
      stream.stream().forEach(chunks::add);
    }
    chunks.forEach(chunk -> chunk.choices().forEach(choice -> text.append(choice.text())));
    assertThat(text.toString()).isEqualTo(server.engine.generate(PROMPT, greedy().build()).text());
    Completion last = chunks.get(chunks.size() - 1);
    assertThat(last.usage().orElseThrow().completionTokens()).isEqualTo(12);
    assertThat(chunks.size()).as("it came in pieces").isGreaterThan(3);
  }

  @Test
  void chats() {
    ChatCompletion got =
        chatClient.chat().completions().create(chat().logprobs(true).topLogprobs(2).build());
    GenerationResult expected = chatExpected(2);
    ChatCompletion.Choice choice = got.choices().get(0);
    assertThat(choice.message().content()).contains(expected.text());
    List<TokenLogprobs> entries = expected.outputs().get(0).logprobs();
    var content = choice.logprobs().orElseThrow().content().orElseThrow();
    assertThat(content).hasSize(entries.size());
    for (int i = 0; i < content.size(); i++) {
      assertThat((float) content.get(i).logprob()).isEqualTo(entries.get(i).chosen().logprob());
      assertThat(content.get(i).topLogprobs()).hasSize(2);
      assertThat(content.get(i).bytes().orElseThrow()).isNotEmpty();
    }
  }

  @Test
  void streamsAChat() {
    ChatCompletionAccumulator accumulator = ChatCompletionAccumulator.create();
    try (StreamResponse<ChatCompletionChunk> stream =
        chatClient
            .chat()
            .completions()
            .createStreaming(
                chat()
                    .logprobs(true)
                    .streamOptions(ChatCompletionStreamOptions.builder().includeUsage(true).build())
                    .build())) {
      stream.stream().forEach(accumulator::accumulate);
    }
    ChatCompletion got = accumulator.chatCompletion();
    GenerationResult expected = chatExpected(0);
    assertThat(got.choices().get(0).message().content()).contains(expected.text());
    assertThat(got.choices().get(0).logprobs().orElseThrow().content().orElseThrow())
        .hasSameSizeAs(expected.outputs().get(0).tokenIds());
    assertThat(got.usage().orElseThrow().completionTokens())
        .isEqualTo(expected.usage().generatedTokens());
  }

  @Test
  void listsModels() {
    assertThat(client.models().list().data()).hasSize(1);
    assertThat(client.models().retrieve("default").id()).isEqualTo("default");
    assertThatThrownBy(() -> client.models().retrieve("other"))
        .isInstanceOf(NotFoundException.class);
  }

  @Test
  void errorsAreTheClientsTypes() {
    BadRequestException wrong =
        catchThrowableOfType(
            BadRequestException.class,
            () -> client.completions().create(completion().topP(1.5).build()));
    assertThat(wrong.param()).contains("top_p");
    assertThat(wrong.type()).contains("invalid_request_error");
    NotFoundException unknown =
        catchThrowableOfType(
            NotFoundException.class,
            () -> client.completions().create(completion().model("gpt-9").build()));
    assertThat(unknown.code()).contains("model_not_found");
    BadRequestException tooLong =
        catchThrowableOfType(
            BadRequestException.class,
            () -> client.completions().create(completion().prompt("cat ".repeat(2000)).build()));
    assertThat(tooLong.code()).contains("context_length_exceeded");
    BadRequestException unsupported =
        catchThrowableOfType(
            BadRequestException.class,
            () ->
                client
                    .completions()
                    .create(
                        completion()
                            .putAdditionalBodyProperty("grammar", JsonValue.from("x"))
                            .build()));
    assertThat(unsupported.param()).contains("grammar");
    assertThatThrownBy(
            () ->
                client
                    .completions()
                    .createStreaming(completion().temperature(-1.0).build())
                    .close())
        .isInstanceOf(BadRequestException.class);
    OpenAIClient stranger = client(server, "sk-other");
    assertThatThrownBy(() -> stranger.completions().create(completion().build()))
        .isInstanceOf(UnauthorizedException.class);
    stranger.close();
  }

  /** The embedded model has no chat template. */
  @Test
  void chatWithoutATemplateOrAgainstItIsRefused() {
    BadRequestException none =
        catchThrowableOfType(
            BadRequestException.class,
            () -> client.chat().completions().create(chat().model("default").build()));
    assertThat(none.code()).contains("no_chat_template");
    assertThat(none.getMessage()).contains("chat template");
    BadRequestException refused =
        catchThrowableOfType(
            BadRequestException.class,
            () -> chatClient.chat().completions().create(chat().addUserMessage("boom").build()));
    assertThat(refused.param()).contains("messages");
    assertThat(refused.getMessage()).contains("no booms");
  }

  @Test
  void closingAStreamCancelsItsRequest() {
    long before = server.engine.metrics().finished().getOrDefault(FinishReason.CANCELLED, 0L);
    try (StreamResponse<Completion> stream =
        client
            .completions()
            .createStreaming(
                completion()
                    .maxTokens(1000)
                    .putAdditionalBodyProperty("ignore_eos", JsonValue.from(true))
                    .build())) {
      Iterator<Completion> chunks = stream.stream().iterator();
      assertThat(chunks.next().choices()).hasSize(1);
      assertThat(chunks.next().choices()).hasSize(1);
    }
    server.awaitIdle();
    assertThat(server.engine.metrics().finished().get(FinishReason.CANCELLED))
        .isEqualTo(before + 1);
  }
}
