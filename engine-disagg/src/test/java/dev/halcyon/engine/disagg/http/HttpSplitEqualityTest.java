package dev.halcyon.engine.disagg.http;

import static dev.halcyon.engine.disagg.http.SplitServers.CHAT;
import static dev.halcyon.engine.disagg.http.SplitServers.COMPLETIONS;
import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.disagg.TinyFamilies;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What a prefill and a decode server answer together is, byte for byte but for its id and date,
 * what one server answers: whole and streamed, context first and generation first.
 */
class HttpSplitEqualityTest {

  /** All that can be asked for, within a body. */
  private static final String ALL =
      "\"logprobs\": 3, \"prompt_logprobs\": 2, \"return_token_ids\": true,"
          + " \"return_generation_logits\": true, \"return_context_logits\": true";

  private static SplitServers story;

  @BeforeAll
  static void open() {
    story = SplitServers.of(null);
  }

  @AfterAll
  static void close() {
    story.assertClean();
    story.close();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "\"temperature\": 0, \"max_tokens\": 5, ALL",
        "\"seed\": 7, \"temperature\": 1.2, \"n\": 3, \"max_tokens\": 4, ALL",
        // Ended by the prefill server.
        "\"temperature\": 0, \"max_tokens\": 1, ALL",
        "\"seed\": 3, \"temperature\": 1.2, \"n\": 3, \"max_tokens\": 1, ALL",
        "\"max_tokens\": 0, \"echo\": true, \"logprobs\": 2",
        "\"temperature\": 0, \"max_tokens\": 3, \"echo\": true, \"logprobs\": 2",
        // The first tokens are "," and " there".
        "\"temperature\": 0, \"stop\": \", th\", ALL",
        "\"temperature\": 0, \"stop\": \", th\", \"include_stop_str_in_output\": true, ALL",
        "\"temperature\": 0, \"stop\": \",\", ALL",
        "\"temperature\": 0, \"stop\": \", x\", \"max_tokens\": 4",
        "\"temperature\": 0, \"truncate_prompt_tokens\": 2, \"echo\": true, \"max_tokens\": 2",
        "\"temperature\": 0, \"max_tokens\": 3, \"return_generation_logits\": true,"
            + " \"return_context_logits\": true, \"logits_dtype\": \"bfloat16\"",
        "\"seed\": 1, \"temperature\": 0.7, \"top_p\": 0.9, \"repetition_penalty\": 1.3,"
            + " \"presence_penalty\": 0.5, \"max_tokens\": 8, \"logprobs\": 0"
      })
  void completions(String fields) {
    String body = "{\"prompt\": \"Once upon a time\", " + fields.replace("ALL", ALL) + "}";
    requireSame(story, COMPLETIONS, body);
  }

  @Test
  void severalPrompts() {
    requireSame(
        story,
        COMPLETIONS,
        "{\"prompt\": [\"The cat\", \"Once\", \"A\"], \"n\": 2, \"seed\": 5, \"temperature\": 1,"
            + " \"max_tokens\": 4, "
            + ALL
            + "}");
  }

  /** Of one prompt the first token is the end, of the other it is not. */
  @Test
  void aPromptThatEndsAtOnceBesideOneThatDoesNot() {
    List<Integer> firsts =
        List.of("The cat", "Once").stream()
            .map(
                prompt ->
                    story
                        .whole
                        .answer(
                            COMPLETIONS,
                            "{\"prompt\": \""
                                + prompt
                                + "\", \"temperature\": 0, \"max_tokens\": 1,"
                                + " \"return_token_ids\": true}")
                        .at("/choices/0/token_ids/0")
                        .intValue())
            .toList();
    assertThat(firsts.get(0)).isNotEqualTo(firsts.get(1));
    requireSame(
        story,
        COMPLETIONS,
        "{\"prompt\": [\"The cat\", \"Once\"], \"temperature\": 0, \"max_tokens\": 4,"
            + " \"stop_token_ids\": ["
            + firsts.get(0)
            + "], "
            + ALL
            + "}");
  }

  @ParameterizedTest
  @MethodSource("dev.halcyon.engine.disagg.TinyFamilies#all")
  void families(Path family, @TempDir Path directory) throws IOException {
    try (SplitServers servers = SplitServers.of(TinyFamilies.withTokenizer(family, directory))) {
      int[] prompt = new Random(1).ints(37, 0, 96).toArray();
      String ids = "{\"prompt\": " + Arrays.toString(prompt) + ", \"max_tokens\": 6, ";
      String more = ", \"ignore_eos\": true, " + ALL + "}";
      requireSame(servers, COMPLETIONS, ids + "\"temperature\": 0" + more);
      requireSame(
          servers, COMPLETIONS, ids + "\"temperature\": 0.9, \"seed\": 11, \"n\": 3" + more);
      servers.assertClean();
    }
  }

  /** Prompts of 37 tokens in chunks of 8, of which a second time two blocks of 16 are there. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "\"temperature\": 0",
        "\"temperature\": 0, \"n\": 3",
        "\"temperature\": 0.9, \"seed\": 11",
        "\"temperature\": 0.9, \"seed\": 11, \"n\": 3"
      })
  void chunksAndPrefixes(String fields, @TempDir Path directory) {
    Path model = TinyCheckpoint.write(directory);
    try (SplitServers servers =
        SplitServers.of(model, engine -> engine.maxBatchTokens(8).prefixReuse(true))) {
      int[] prompt = new Random(2).ints(37, 1, TinyCheckpoint.VOCAB).toArray();
      String body =
          "{\"prompt\": " + Arrays.toString(prompt) + ", \"max_tokens\": 6, \"ignore_eos\": true, ";
      // No cache is read where rows of the prompt are asked for, but the decode server's.
      requireSame(servers, COMPLETIONS, body + fields + ", " + ALL + "}");
      String cached = body + fields + ", \"logprobs\": 3, \"return_generation_logits\": true}";
      requireSame(servers, COMPLETIONS, cached);
      assertThat(
              servers
                  .decode
                  .answer(COMPLETIONS, servers.second(cached))
                  .at("/usage/prompt_tokens_details/cached_tokens")
                  .intValue())
          .isEqualTo(32);
      servers.assertClean();
    }
  }

  @Test
  void chats(@TempDir Path directory) throws IOException {
    Path model = SplitServers.withTemplate(TinyCheckpoint.write(directory));
    String messages = "{\"messages\": [{\"role\": \"user\", \"content\": \"hello there\"}], ";
    String all = ALL.replace("\"logprobs\": 3", "\"logprobs\": true, \"top_logprobs\": 2");
    try (SplitServers servers = SplitServers.of(model)) {
      for (String fields :
          List.of(
              "\"temperature\": 0, \"max_tokens\": 6, " + all,
              "\"temperature\": 1, \"seed\": 4, \"n\": 3, \"max_completion_tokens\": 5, " + all,
              "\"temperature\": 0, \"max_tokens\": 1, " + all,
              "\"temperature\": 0, \"max_tokens\": 9")) {
        requireSame(servers, CHAT, messages + fields + "}");
      }
      servers.assertClean();
    }
  }

  private static void requireSame(SplitServers servers, String path, String body) {
    JsonNode whole = servers.whole.answer(path, body);
    assertThat(plain(servers.decode.answer(path, servers.second(body)))).isEqualTo(plain(whole));
    assertThat(plain(servers.decode.answer(path, servers.generationFirst(body))))
        .isEqualTo(plain(whole));
    String streamed = SplitServers.with(body, "stream", true);
    streamed = SplitServers.with(streamed, "stream_options", Map.of("include_usage", true));
    Map<Integer, List<JsonNode>> events = byChoice(servers.whole.events(path, streamed));
    assertThat(byChoice(servers.decode.events(path, servers.second(streamed)))).isEqualTo(events);
    assertThat(byChoice(servers.decode.events(path, servers.generationFirst(streamed))))
        .isEqualTo(events);
  }

  /** Events of one choice have an order; those of others may come between. */
  private static Map<Integer, List<JsonNode>> byChoice(List<JsonNode> events) {
    return events.stream()
        .map(HttpSplitEqualityTest::plain)
        .collect(
            Collectors.groupingBy(
                event -> event.at("/choices/0/index").asInt(-1),
                TreeMap::new,
                Collectors.toList()));
  }

  private static JsonNode plain(JsonNode answer) {
    return ((ObjectNode) answer).without(List.of("id", "created"));
  }
}
