package dev.halcyon.engine.disagg.http;

import static dev.halcyon.engine.disagg.TestJson.json;
import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import dev.halcyon.engine.ChatMessage;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.GenerationOutput;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.TokenLogprobs;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What is served is, value by value, what the engine gives. */
class HttpEqualityTest {

  private static final String COMPLETIONS = "/v1/completions";
  private static final String CHAT = "/v1/chat/completions";
  private static final String PROMPT = "Once upon a time";

  private static Engine engine;
  private static TestServer server;
  private static Engine chatEngine;
  private static TestServer chatServer;

  @BeforeAll
  static void start(@TempDir Path directory) throws Exception {
    engine = TestServer.defaultModel().prefixReuse(false).build();
    server = new TestServer(engine);
    Path tiny = TinyCheckpoint.write(directory.resolve("tiny"));
    Files.writeString(
        tiny.resolve("chat_template.jinja"),
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:");
    chatEngine = Engine.builder().model(tiny).threads(2).prefixReuse(false).build();
    chatServer = new TestServer(chatEngine);
  }

  @AfterAll
  static void stop() {
    server.close();
    engine.close();
    chatServer.close();
    chatEngine.close();
  }

  private static SamplingParams.Builder params() {
    return SamplingParams.builder().maxTokens(24);
  }

  /** Requests of all kinds with the engine's parameters that they stand for. */
  private static Map<String, SamplingParams> kinds() {
    return Map.of(
        "\"temperature\": 0",
        params().temperature(0).build(),
        "\"seed\": 7, \"n\": 3",
        params().seed(7L).n(3).build(),
        "\"temperature\": 0, \"stop\": [\" there\", \"girl\"]",
        params().temperature(0).stop(" there", "girl").build(),
        "\"temperature\": 0, \"stop\": \" a\", \"include_stop_str_in_output\": true",
        params().temperature(0).stop(" a").includeStopInOutput(true).build(),
        "\"seed\": 5, \"temperature\": 1.5, \"top_p\": 0.7, \"top_k\": 20, \"min_p\": 0.01",
        params().seed(5L).temperature(1.5).topP(0.7).topK(20).minP(0.01).build(),
        "\"temperature\": 0, \"presence_penalty\": 1.5, \"frequency_penalty\": 0.5,"
            + " \"repetition_penalty\": 1.1",
        params()
            .temperature(0)
            .presencePenalty(1.5)
            .frequencyPenalty(0.5)
            .repetitionPenalty(1.1)
            .build(),
        "\"temperature\": 0, \"logit_bias\": {\"300\": 12.5, \"5\": -100}, \"ignore_eos\": true,"
            + " \"min_tokens\": 3",
        params()
            .temperature(0)
            .logitBias(Map.of(300, 12.5f, 5, -100f))
            .ignoreEos(true)
            .minTokens(3)
            .build());
  }

  @Test
  void completionsOfEveryKindAreTheEngines() {
    kinds()
        .forEach(
            (fields, params) -> {
              SamplingParams scored = params.toBuilder().logprobs(3).build();
              GenerationResult expected = engine.generate(PROMPT, scored);
              String body =
                  "{\"prompt\": \"Once upon a time\", \"max_tokens\": 24, \"logprobs\": 3,"
                      + " \"return_token_ids\": true, "
                      + fields;
              JsonNode whole = server.answer(COMPLETIONS, body + "}");
              assertThat(whole.get("object").textValue()).isEqualTo("text_completion");
              assertUsage(whole.get("usage"), expected);
              assertSameChoices(whole.get("choices"), expected);
              assertSameStream(
                  whole,
                  server.events(
                      COMPLETIONS,
                      body + ", \"stream\": true, \"stream_options\": {\"include_usage\": true}}"));
            });
  }

  private static void assertUsage(JsonNode usage, GenerationResult expected) {
    int prompt = expected.usage().promptTokens();
    int generated = expected.usage().generatedTokens();
    assertThat(usage.get("prompt_tokens").intValue()).isEqualTo(prompt);
    assertThat(usage.get("completion_tokens").intValue()).isEqualTo(generated);
    assertThat(usage.get("total_tokens").intValue()).isEqualTo(prompt + generated);
  }

  private static void assertSameChoices(JsonNode choices, GenerationResult expected) {
    assertThat(choices).hasSize(expected.outputs().size());
    for (GenerationOutput output : expected.outputs()) {
      JsonNode choice = choices.get(output.index());
      assertThat(choice.get("index").intValue()).isEqualTo(output.index());
      assertThat(choice.get("text").textValue()).isEqualTo(output.text());
      assertThat(ints(choice.get("token_ids"))).isEqualTo(output.tokenIds());
      assertThat(ints(choice.get("prompt_token_ids"))).isEqualTo(expected.promptIds());
      assertThat(choice.get("finish_reason").textValue())
          .isEqualTo(output.finishReason().name().toLowerCase());
      assertSameLogprobs(choice.get("logprobs"), output.logprobs(), 0);
    }
  }

  /**
   * @param from which of the served entries is the first expected one
   */
  private static void assertSameLogprobs(JsonNode node, List<TokenLogprobs> expected, int from) {
    assertThat(node.get("tokens")).hasSize(from + expected.size());
    for (int i = 0; i < expected.size(); i++) {
      TokenLogprobs entry = expected.get(i);
      assertThat(node.get("token_logprobs").get(from + i).floatValue())
          .isEqualTo(entry.chosen().logprob());
      JsonNode top = node.get("top_logprobs").get(from + i);
      List<Float> values = new ArrayList<>();
      top.forEach(each -> values.add(each.floatValue()));
      assertThat(values)
          .containsExactlyElementsOf(
              entry.entries().values().stream().map(TokenLogprobs.Entry::logprob).toList());
    }
  }

  /** A stream's pieces, joined, are the whole answer. */
  private static void assertSameStream(JsonNode whole, List<JsonNode> events) {
    JsonNode last = events.get(events.size() - 1);
    assertThat(last.get("choices")).isEmpty();
    assertThat(last.get("usage")).isEqualTo(whole.get("usage"));
    for (JsonNode choice : whole.get("choices")) {
      StringBuilder text = new StringBuilder();
      List<Integer> ids = new ArrayList<>();
      List<JsonNode> scores = new ArrayList<>();
      List<Integer> offsets = new ArrayList<>();
      String reason = null;
      for (JsonNode event : events.subList(0, events.size() - 1)) {
        assertThat(event.get("usage").isNull()).isTrue();
        JsonNode piece = event.get("choices").get(0);
        if (piece.get("index").equals(choice.get("index"))) {
          assertThat(reason).as("nothing comes behind the end").isNull();
          text.append(piece.get("text").textValue());
          ids.addAll(ints(piece.get("token_ids")));
          piece.get("logprobs").get("token_logprobs").forEach(scores::add);
          offsets.addAll(ints(piece.get("logprobs").get("text_offset")));
          reason = piece.get("finish_reason").textValue();
        }
      }
      assertThat(text.toString()).isEqualTo(choice.get("text").textValue());
      assertThat(ids).isEqualTo(ints(choice.get("token_ids")));
      assertThat(reason).isEqualTo(choice.get("finish_reason").textValue());
      assertThat(scores).containsExactlyElementsOf(choice.get("logprobs").get("token_logprobs"));
      assertThat(offsets).isEqualTo(ints(choice.get("logprobs").get("text_offset")));
    }
  }

  private static List<Integer> ints(JsonNode array) {
    List<Integer> ints = new ArrayList<>();
    array.forEach(each -> ints.add(each.intValue()));
    return ints;
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "[\"Once upon a time\", \"The cat\"]",
        "IDS",
        "\"Once upon a time\"",
        "ONE_LIST_OF_IDS"
      })
  void promptsComeInFourForms(String form) {
    int[] first = engine.tokenize(PROMPT);
    int[] second = engine.tokenize("The cat");
    String ids = json(Arrays.toString(first)).toString();
    String prompt =
        switch (form) {
          case "IDS" -> "[" + ids + ", " + Arrays.toString(second) + "]";
          case "ONE_LIST_OF_IDS" -> ids;
          default -> form;
        };
    boolean both = form.contains("cat") || form.equals("IDS");
    JsonNode answer =
        server.answer(COMPLETIONS, "{\"temperature\": 0, \"n\": 2, \"prompt\": " + prompt + "}");
    // 16 tokens, OpenAI's default.
    SamplingParams greedy = SamplingParams.builder().temperature(0).maxTokens(16).build();
    List<String> expected = new ArrayList<>();
    for (String text : both ? List.of(PROMPT, "The cat") : List.of(PROMPT)) {
      String out = engine.generate(text, greedy).text();
      expected.add(out);
      expected.add(out);
    }
    assertThat(answer.get("choices"))
        .extracting(choice -> choice.get("text").textValue())
        .containsExactlyElementsOf(expected);
    assertThat(answer.get("choices"))
        .extracting(choice -> choice.get("index").intValue())
        .containsExactlyElementsOf(IntStream.range(0, expected.size()).boxed().toList());
    int promptTokens = both ? first.length + second.length : first.length;
    assertThat(answer.get("usage").get("prompt_tokens").intValue()).isEqualTo(promptTokens);
  }

  @Test
  void anEchoHasThePromptWithItsLogprobs() {
    SamplingParams params =
        params().temperature(0).maxTokens(4).logprobs(2).promptLogprobs(2).build();
    GenerationResult expected = engine.generate(PROMPT, params);
    String body =
        "{\"prompt\": \"Once upon a time\", \"temperature\": 0, \"max_tokens\": 4, \"echo\": true,"
            + " \"logprobs\": 2, \"return_token_ids\": true";
    JsonNode whole = server.answer(COMPLETIONS, body + "}");
    JsonNode choice = whole.get("choices").get(0);
    assertThat(choice.get("text").textValue()).isEqualTo(PROMPT + expected.text());
    JsonNode logprobs = choice.get("logprobs");
    assertThat(logprobs.get("token_logprobs").get(0).isNull()).isTrue();
    assertThat(logprobs.get("top_logprobs").get(0).isNull()).isTrue();
    List<TokenLogprobs> all = new ArrayList<>(expected.promptLogprobsWithLeadingNull());
    all.addAll(expected.outputs().get(0).logprobs());
    assertSameLogprobs(logprobs, all.subList(1, all.size()), 1);
    // The begin token has no text; from there each token stands where those before it end.
    int at = 0;
    for (int i = 0; i < all.size(); i++) {
      assertThat(logprobs.get("text_offset").get(i).intValue()).isEqualTo(at);
      at += i == 0 ? 0 : logprobs.get("tokens").get(i).textValue().length();
    }
    assertThat(at).isEqualTo(choice.get("text").textValue().length());
    assertSameStream(
        whole,
        server.events(
            COMPLETIONS,
            body + ", \"stream\": true, \"stream_options\": {\"include_usage\": true}}"));
  }

  /** How harnesses score a text: nothing is generated, and nothing of what had to be shows. */
  @Test
  void anEchoOfThePromptAloneScoresIt() {
    String body =
        "{\"prompt\": \"Once upon a time\", \"max_tokens\": 0, \"echo\": true, \"logprobs\": 0";
    JsonNode whole = server.answer(COMPLETIONS, body + "}");
    JsonNode choice = whole.get("choices").get(0);
    GenerationResult expected =
        engine.generate(PROMPT, params().maxTokens(1).promptLogprobs(0).build());
    assertThat(choice.get("text").textValue()).isEqualTo(PROMPT);
    assertThat(choice.get("finish_reason").textValue()).isEqualTo("length");
    List<TokenLogprobs> all = expected.promptLogprobsWithLeadingNull();
    assertSameLogprobs(choice.get("logprobs"), all.subList(1, all.size()), 1);
    assertThat(whole.get("usage").get("completion_tokens").intValue()).isZero();
    List<JsonNode> events = server.events(COMPLETIONS, body + ", \"stream\": true}");
    assertThat(events).hasSize(1);
    JsonNode streamed = events.get(0).get("choices").get(0);
    assertThat(streamed).isEqualTo(choice);
  }

  @Test
  void promptLogprobsComeById() {
    SamplingParams params = params().temperature(0).maxTokens(1).promptLogprobs(2).build();
    List<TokenLogprobs> expected = engine.generate(PROMPT, params).promptLogprobsWithLeadingNull();
    String body =
        "{\"prompt\": \"Once upon a time\", \"max_tokens\": 1, \"temperature\": 0,"
            + " \"prompt_logprobs\": 2";
    JsonNode got =
        server.answer(COMPLETIONS, body + "}").get("choices").get(0).get("prompt_logprobs");
    assertThat(got).hasSize(expected.size());
    assertThat(got.get(0).isNull()).isTrue();
    for (int i = 1; i < expected.size(); i++) {
      JsonNode position = got.get(i);
      assertThat(position).hasSize(expected.get(i).entries().size());
      expected
          .get(i)
          .entries()
          .forEach(
              (id, entry) -> {
                JsonNode served = position.get(Integer.toString(id));
                assertThat(served.get("logprob").floatValue()).isEqualTo(entry.logprob());
                assertThat(served.get("rank").intValue()).isEqualTo(entry.rank());
              });
    }
    JsonNode streamed =
        server.events(COMPLETIONS, body + ", \"stream\": true}").get(0).get("choices").get(0);
    assertThat(streamed.get("prompt_logprobs")).isEqualTo(got);
  }

  @Test
  void aTruncatedPromptIsItsEnd() {
    int[] ids = engine.tokenize(PROMPT);
    JsonNode choice =
        server
            .answer(
                COMPLETIONS,
                "{\"prompt\": \"Once upon a time\", \"max_tokens\": 2, \"echo\": true,"
                    + " \"temperature\": 0, \"truncate_prompt_tokens\": 2,"
                    + " \"return_token_ids\": true}")
            .get("choices")
            .get(0);
    int[] kept = {ids[ids.length - 2], ids[ids.length - 1]};
    assertThat(ints(choice.get("prompt_token_ids"))).containsExactly(kept[0], kept[1]);
    SamplingParams params = params().temperature(0).maxTokens(2).build();
    String expected = engine.generate(GenerationRequest.of(kept, params)).text();
    assertThat(choice.get("text").textValue()).isEqualTo(engine.detokenize(kept) + expected);
  }

  @Test
  void aConversationIsTheEngines() {
    List<ChatMessage> messages =
        List.of(ChatMessage.system("be kind"), ChatMessage.user("hello there"));
    SamplingParams params =
        SamplingParams.builder().maxTokens(20).seed(3L).temperature(1).n(2).logprobs(2).build();
    GenerationResult expected = chatEngine.chat(messages, params);
    String body =
        "{\"messages\": [{\"role\": \"developer\", \"content\": \"be kind\"}, {\"role\": \"user\","
            + " \"content\": [{\"type\": \"text\", \"text\": \"hello\"},"
            + " {\"type\": \"text\", \"text\": \" there\"}]}], \"max_completion_tokens\": 20,"
            + " \"seed\": 3, \"temperature\": 1, \"n\": 2, \"logprobs\": true,"
            + " \"top_logprobs\": 2, \"return_token_ids\": true";
    JsonNode whole = chatServer.answer(CHAT, body + "}");
    assertThat(whole.get("object").textValue()).isEqualTo("chat.completion");
    assertUsage(whole.get("usage"), expected);
    List<JsonNode> events = chatServer.events(CHAT, body + ", \"stream\": true}");
    for (GenerationOutput output : expected.outputs()) {
      JsonNode choice = whole.get("choices").get(output.index());
      assertThat(choice.get("message").get("content").textValue()).isEqualTo(output.text());
      assertThat(choice.get("message").get("role").textValue()).isEqualTo("assistant");
      assertThat(ints(choice.get("token_ids"))).isEqualTo(output.tokenIds());
      assertThat(choice.get("finish_reason").textValue())
          .isEqualTo(output.finishReason().name().toLowerCase());
      assertChatLogprobs(choice.get("logprobs").get("content"), output.logprobs());
      assertSameChatStream(choice, events);
    }
  }

  private static void assertChatLogprobs(JsonNode content, List<TokenLogprobs> expected) {
    assertThat(content).hasSize(expected.size());
    for (int i = 0; i < expected.size(); i++) {
      TokenLogprobs entry = expected.get(i);
      JsonNode token = content.get(i);
      assertThat(token.get("logprob").floatValue()).isEqualTo(entry.chosen().logprob());
      byte[] bytes = chatEngine.tokenBytes(entry.tokenId());
      assertThat(ints(token.get("bytes"))).hasSize(bytes.length);
      assertThat(token.get("token").textValue())
          .isEqualTo(new String(bytes, StandardCharsets.UTF_8));
      List<Float> top = new ArrayList<>();
      token.get("top_logprobs").forEach(each -> top.add(each.get("logprob").floatValue()));
      assertThat(top)
          .containsExactlyElementsOf(
              entry.entries().values().stream()
                  .filter(each -> each.rank() <= 2)
                  .map(TokenLogprobs.Entry::logprob)
                  .toList());
    }
  }

  private static void assertSameChatStream(JsonNode choice, List<JsonNode> events) {
    StringBuilder text = new StringBuilder();
    List<Integer> ids = new ArrayList<>();
    List<JsonNode> scores = new ArrayList<>();
    List<JsonNode> pieces = new ArrayList<>();
    for (JsonNode event : events) {
      assertThat(event.get("object").textValue()).isEqualTo("chat.completion.chunk");
      if (event.get("choices").get(0).get("index").equals(choice.get("index"))) {
        pieces.add(event.get("choices").get(0));
      }
    }
    assertThat(pieces.get(0).get("delta").get("role").textValue()).isEqualTo("assistant");
    for (JsonNode piece : pieces) {
      text.append(piece.get("delta").path("content").asText());
      ids.addAll(ints(piece.path("token_ids")));
      piece.get("logprobs").path("content").forEach(scores::add);
    }
    assertThat(text.toString()).isEqualTo(choice.get("message").get("content").textValue());
    assertThat(ids).isEqualTo(ints(choice.get("token_ids")));
    assertThat(scores).containsExactlyElementsOf(choice.get("logprobs").get("content"));
    assertThat(pieces.get(pieces.size() - 1).get("finish_reason"))
        .isEqualTo(choice.get("finish_reason"));
  }

  /** A byte-level model cuts characters: their parts have bytes, and offsets point at them. */
  @Test
  void partsOfCharactersHaveTheirBytes() {
    int[] ids = chatEngine.tokenize("\uD83E\uDD8A");
    JsonNode logprobs =
        chatServer
            .answer(
                COMPLETIONS,
                "{\"prompt\": \"a\uD83E\uDD8A\", \"max_tokens\": 0, \"echo\": true,"
                    + " \"logprobs\": 0}")
            .get("choices")
            .get(0)
            .get("logprobs");
    assertThat(ids.length).as("the fox takes several tokens").isGreaterThan(2);
    List<String> tokens = new ArrayList<>();
    logprobs.get("tokens").forEach(each -> tokens.add(each.textValue()));
    // F0 9F A6 8A is the fox in UTF-8.
    assertThat(tokens.stream().filter(each -> each.startsWith("bytes:")).toList())
        .isNotEmpty()
        .first()
        .asString()
        .startsWith("bytes:\\xf0");
    List<Integer> offsets = ints(logprobs.get("text_offset"));
    assertThat(offsets.get(offsets.size() - 1)).isEqualTo(1);
  }

  @Test
  void metricsAndModelsTellWhatRuns() {
    server.answer(COMPLETIONS, "{\"prompt\": \"The cat\", \"max_tokens\": 3}");
    String metrics = server.get("/metrics").body();
    assertThat(metrics)
        .containsPattern("halcyon_tokens_generated_total [1-9]")
        .containsPattern(
            "halcyon_http_requests_seconds_count\\{path=\"/v1/completions\",status=\"200\"\\} [1-9]")
        .contains("halcyon_request_first_token_seconds_bucket");
    JsonNode models = json(server.get("/v1/models").body());
    assertThat(models.get("data").get(0).get("id").textValue()).isEqualTo("default");
    assertThat(json(server.get("/v1/models/default").body()).get("max_model_len").intValue())
        .isEqualTo(1024);
    assertThat(server.get("/v1/models/other").statusCode()).isEqualTo(404);
    assertThat(server.get("/health").body()).isEqualTo("{\"status\":\"ok\"}");
  }
}
