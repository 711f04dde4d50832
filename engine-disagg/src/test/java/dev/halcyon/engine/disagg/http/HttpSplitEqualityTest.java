package dev.halcyon.engine.disagg.http;

import static dev.halcyon.engine.disagg.http.SplitServers.CHAT;
import static dev.halcyon.engine.disagg.http.SplitServers.COMPLETIONS;
import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.disagg.Answers;
import dev.halcyon.engine.disagg.Ends;
import dev.halcyon.engine.disagg.PrefixAt;
import dev.halcyon.engine.disagg.TinyFamilies;
import dev.halcyon.engine.disagg.WatchedTransport;
import dev.halcyon.engine.disagg.transfer.NeedsUcx;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What a prefill and a decode server answer together is, byte for byte but for its id and date,
 * what one server answers: whole and streamed, context first and generation first; keys and values
 * go over TCP unless a test says otherwise.
 */
class HttpSplitEqualityTest {

  /** All that can be asked for, within a body. */
  static final String ALL =
      "\"logprobs\": 3, \"prompt_logprobs\": 2, \"return_token_ids\": true,"
          + " \"return_generation_logits\": true, \"return_context_logits\": true";

  /** All of that which leaves the prompt alone. */
  static final String GENERATED =
      "\"logprobs\": 3, \"return_token_ids\": true, \"return_generation_logits\": true";

  static final List<String> DRAWN =
      List.of(
          "\"temperature\": 0",
          "\"temperature\": 0, \"n\": 3",
          "\"temperature\": 0.9, \"seed\": 11",
          "\"temperature\": 0.9, \"seed\": 11, \"n\": 3");

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

  @Test
  @ExtendWith(NeedsUcx.class)
  void completionsOverUcx() {
    try (SplitServers servers = SplitServers.of(null, Ends.ucx(), engine -> engine)) {
      String body = "{\"prompt\": [\"Once upon a time\", \"The cat\"], \"max_tokens\": 5, ";
      requireSame(servers, COMPLETIONS, body + "\"temperature\": 0, " + ALL + "}");
      requireSame(
          servers, COMPLETIONS, body + "\"seed\": 7, \"temperature\": 1.2, \"n\": 3, " + ALL + "}");
      servers.assertClean();
    }
  }

  @ParameterizedTest
  @MethodSource("dev.halcyon.engine.disagg.TinyFamilies#all")
  void families(Path family, @TempDir Path directory) throws IOException {
    requireSame(TinyFamilies.withTokenizer(family, directory), Ends.tcp(), DRAWN);
  }

  @ParameterizedTest
  @MethodSource("dev.halcyon.engine.disagg.TinyFamilies#all")
  @ExtendWith(NeedsUcx.class)
  void familiesOverUcx(Path family, @TempDir Path directory) throws IOException {
    Path model = TinyFamilies.withTokenizer(family, directory);
    requireSame(model, Ends.ucx(), List.of(DRAWN.get(0), DRAWN.get(3)));
  }

  private static void requireSame(Path model, Ends ends, List<String> draws) {
    try (SplitServers servers = SplitServers.of(model, ends, engine -> engine)) {
      int[] prompt = new Random(1).ints(37, 0, 96).toArray();
      String ids = "{\"prompt\": " + Arrays.toString(prompt) + ", \"max_tokens\": 6, ";
      String more = ", \"ignore_eos\": true, " + ALL + "}";
      for (String drawn : draws) {
        requireSame(servers, COMPLETIONS, ids + drawn + more);
      }
      servers.assertClean();
    }
  }

  /** Prompts of 61 tokens in chunks of 8, of which 32 are there from another prompt. */
  @ParameterizedTest
  @EnumSource
  void chunksAndBeginningsInCaches(PrefixAt cached, @TempDir Path directory) {
    Path model = TinyCheckpoint.write(directory);
    Ends ends = Ends.tcp();
    WatchedTransport fetches = new WatchedTransport(ends.generation());
    Ends watched = new Ends(ends.context(), fetches, ends.openTransfers());
    try (SplitServers servers =
        SplitServers.of(model, watched, engine -> engine.maxBatchTokens(8).prefixReuse(true))) {
      int[] prompt = new Random(2).ints(61, 1, TinyCheckpoint.VOCAB).toArray();
      int asked = 0;
      for (String body : bodies()) {
        for (Answers.Server split : servers.styles().values()) {
          String salted = Answers.with(body, "cache_salt", "s" + asked++);
          servers.cache(Answers.with(salted, "prompt", Arrays.copyOf(prompt, 40)), cached);
          String complete = Answers.with(salted, "prompt", prompt);
          String expected = servers.whole.good(COMPLETIONS, complete);
          Answers.requireSame(split.ask(COMPLETIONS, complete), expected);
          // No cache is read where rows of the prompt are asked for, but the decode server's.
          boolean rows = body.contains("return_context_logits");
          assertThat(Answers.cachedTokens(expected)).isEqualTo(cached.prefill() && !rows ? 32 : 0);
          assertThat(fetches.firstTokens).hasSize(asked);
          assertThat(fetches.firstTokens.get(asked - 1)).isEqualTo(cached.decode() ? 32 : 0);
        }
      }
      servers.assertClean();
    }
  }

  /** Whatever is drawn, with and without rows of the prompt, whole and streamed. */
  private static List<String> bodies() {
    return DRAWN.stream()
        .flatMap(drawn -> Stream.of(ALL, GENERATED).map(wanted -> drawn + ", " + wanted))
        .map(fields -> "{\"max_tokens\": 6, \"ignore_eos\": true, " + fields + "}")
        .flatMap(body -> Stream.of(body, Answers.streamed(body)))
        .toList();
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
    Answers.requireSame(servers.whole::good, servers.styles(), path, body);
  }
}
