package dev.halcyon.engine.disagg.router;

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
import com.openai.models.completions.CompletionChoice;
import com.openai.models.completions.CompletionCreateParams;
import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.TinyCheckpoint;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** OpenAI's own client for Java, as it comes, gets from a router what it gets from one server. */
class RouterOpenAiClientTest {

  private static RealCluster cluster;
  private static OpenAIClient whole;
  private static final List<OpenAIClient> ROUTED = new ArrayList<>();

  @BeforeAll
  static void start(@TempDir Path directory) throws Exception {
    Path tiny = TinyCheckpoint.write(directory.resolve("tiny"));
    Files.writeString(
        tiny.resolve("chat_template.jinja"),
        "{% for m in messages %}{% if m.content == 'boom' %}{{ raise_exception('no booms') }}"
            + "{% endif %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:");
    cluster =
        new RealCluster(
            tiny,
            engine -> engine.prefixReuse(false),
            router -> router.server(RouterRig.server().apiKey("sk-front").build()));
    whole = client(cluster.whole.url());
    for (ScheduleStyle style : ScheduleStyle.values()) {
      ROUTED.add(client(cluster.routers.get(style).url()));
    }
  }

  @AfterAll
  static void stop() {
    whole.close();
    ROUTED.forEach(OpenAIClient::close);
    cluster.assertClean();
    cluster.close();
  }

  private static OpenAIClient client(String url) {
    return OpenAIOkHttpClient.builder()
        .baseUrl(url + "/v1")
        .apiKey("sk-front")
        .maxRetries(0)
        .build();
  }

  private static void eachRouted(Consumer<OpenAIClient> check) {
    ROUTED.forEach(check);
  }

  private static CompletionCreateParams.Builder completion() {
    return CompletionCreateParams.builder()
        .model("test")
        .prompt("hello there")
        .maxTokens(12)
        .seed(11)
        .temperature(1.0);
  }

  private static ChatCompletionCreateParams.Builder chat() {
    return ChatCompletionCreateParams.builder()
        .model("test")
        .addSystemMessage("be kind")
        .addUserMessage("hello there")
        .maxCompletionTokens(10)
        .temperature(0.0);
  }

  private static ChatCompletionStreamOptions usage() {
    return ChatCompletionStreamOptions.builder().includeUsage(true).build();
  }

  @Test
  void completesAPrompt() {
    Completion expected = whole.completions().create(completion().n(2).logprobs(2).build());
    assertThat(expected.choices()).hasSize(2);
    eachRouted(
        client -> {
          Completion got = client.completions().create(completion().n(2).logprobs(2).build());
          assertThat(got.choices()).isEqualTo(expected.choices());
          assertThat(got.usage()).isEqualTo(expected.usage());
          assertThat(got.model()).isEqualTo("test");
        });
  }

  @Test
  void streamsACompletion() {
    CompletionCreateParams params = completion().logprobs(1).streamOptions(usage()).build();
    List<Completion> expected = stream(whole, params);
    assertThat(expected.size()).as("it comes in pieces").isGreaterThan(3);
    eachRouted(
        client -> {
          List<Completion> got = stream(client, params);
          assertThat(choices(got)).isEqualTo(choices(expected));
          assertThat(got.get(got.size() - 1).usage().orElseThrow())
              .isEqualTo(expected.get(expected.size() - 1).usage().orElseThrow());
        });
  }

  private static List<Completion> stream(OpenAIClient client, CompletionCreateParams params) {
    List<Completion> chunks = new ArrayList<>();
    try (StreamResponse<Completion> stream = client.completions().createStreaming(params)) {
      stream.stream().forEach(chunks::add);
    }
    return chunks;
  }

  private static List<CompletionChoice> choices(List<Completion> chunks) {
    return chunks.stream().flatMap(chunk -> chunk.choices().stream()).toList();
  }

  @Test
  void chats() {
    ChatCompletionCreateParams params = chat().logprobs(true).topLogprobs(2).build();
    ChatCompletion expected = whole.chat().completions().create(params);
    assertThat(expected.choices().get(0).logprobs().orElseThrow().content().orElseThrow())
        .isNotEmpty();
    eachRouted(
        client -> {
          ChatCompletion got = client.chat().completions().create(params);
          assertThat(got.choices()).isEqualTo(expected.choices());
          assertThat(got.usage()).isEqualTo(expected.usage());
        });
  }

  @Test
  void streamsAChat() {
    ChatCompletionCreateParams params = chat().logprobs(true).streamOptions(usage()).build();
    ChatCompletion expected = accumulated(whole, params);
    eachRouted(
        client -> {
          ChatCompletion got = accumulated(client, params);
          assertThat(got.choices()).isEqualTo(expected.choices());
          assertThat(got.usage().orElseThrow().completionTokens()).isPositive();
          assertThat(got.usage()).isEqualTo(expected.usage());
        });
  }

  private static ChatCompletion accumulated(
      OpenAIClient client, ChatCompletionCreateParams params) {
    ChatCompletionAccumulator accumulator = ChatCompletionAccumulator.create();
    try (StreamResponse<ChatCompletionChunk> stream =
        client.chat().completions().createStreaming(params)) {
      stream.stream().forEach(accumulator::accumulate);
    }
    return accumulator.chatCompletion();
  }

  @Test
  void listsModels() {
    eachRouted(
        client -> {
          assertThat(client.models().list().data()).hasSize(1);
          assertThat(client.models().retrieve("test").id()).isEqualTo("test");
          assertThatThrownBy(() -> client.models().retrieve("other"))
              .isInstanceOf(NotFoundException.class);
        });
  }

  @Test
  void errorsAreTheClientsTypes() {
    eachRouted(
        client -> {
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
          BadRequestException refused =
              catchThrowableOfType(
                  BadRequestException.class,
                  () -> client.chat().completions().create(chat().addUserMessage("boom").build()));
          assertThat(refused.param()).contains("messages");
          assertThatThrownBy(
                  () ->
                      client
                          .completions()
                          .createStreaming(completion().temperature(-1.0).build())
                          .close())
              .isInstanceOf(BadRequestException.class);
        });
    OpenAIClient stranger =
        OpenAIOkHttpClient.builder()
            .baseUrl(cluster.routers.get(ScheduleStyle.CONTEXT_FIRST).url() + "/v1")
            .apiKey("sk-other")
            .maxRetries(0)
            .build();
    assertThatThrownBy(() -> stranger.completions().create(completion().build()))
        .isInstanceOf(UnauthorizedException.class);
    stranger.close();
  }

  @Test
  void closingAStreamEndsItsRequest() {
    eachRouted(
        client -> {
          try (StreamResponse<Completion> stream =
              client
                  .completions()
                  .createStreaming(
                      completion()
                          .maxTokens(200)
                          .putAdditionalBodyProperty("ignore_eos", JsonValue.from(true))
                          .build())) {
            Iterator<Completion> chunks = stream.stream().iterator();
            assertThat(chunks.next().choices()).hasSize(1);
          }
          cluster.assertClean();
        });
  }
}
