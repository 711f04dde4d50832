package dev.halcyon.engine.disagg.router;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.disagg.Answers;
import dev.halcyon.engine.disagg.TinyFamilies;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What comes through a router, context first and generation first, is what one server answers, byte
 * for byte but for its id and date; errors too.
 */
class RouterEqualityTest {

  private static final String COMPLETIONS = "/v1/completions";
  private static final String ALL =
      "\"logprobs\": 3, \"prompt_logprobs\": 2, \"return_token_ids\": true,"
          + " \"return_generation_logits\": true, \"return_context_logits\": true";

  private static RealCluster story;

  @BeforeAll
  static void open() {
    story =
        new RealCluster(
            null, engine -> engine.kvCacheTokens(4096).prefixReuse(false), router -> router);
  }

  @AfterAll
  static void close() {
    story.close();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "\"temperature\": 0, \"max_tokens\": 8, ALL",
        "\"seed\": 7, \"temperature\": 1.2, \"n\": 3, \"max_tokens\": 6, ALL",
        "\"temperature\": 0, \"max_tokens\": 1, ALL",
        "\"max_tokens\": 0, \"echo\": true, \"logprobs\": 2",
        // The first tokens are "," and " there".
        "\"temperature\": 0, \"stop\": \", th\", ALL",
        "\"temperature\": 0, \"stop\": \",\", ALL"
      })
  void completions(String fields) {
    requireSame(
        story,
        COMPLETIONS,
        "{\"prompt\": \"Once upon a time\", " + fields.replace("ALL", ALL) + "}");
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

  @ParameterizedTest
  @MethodSource("dev.halcyon.engine.disagg.TinyFamilies#all")
  void families(Path family, @TempDir Path directory) throws IOException {
    Path model = TinyFamilies.withTokenizer(family, directory);
    try (RealCluster tiny =
        new RealCluster(
            model,
            engine -> engine.kvCacheTokens(1024).deviceMemoryBytes(64 << 20).prefixReuse(false),
            router -> router)) {
      int[] prompt = new Random(1).ints(37, 0, 96).toArray();
      String ids = "{\"prompt\": " + Arrays.toString(prompt) + ", \"max_tokens\": 6, ";
      String more = ", \"ignore_eos\": true, " + ALL + "}";
      requireSame(tiny, COMPLETIONS, ids + "\"temperature\": 0" + more);
      requireSame(tiny, COMPLETIONS, ids + "\"temperature\": 0.9, \"seed\": 11, \"n\": 3" + more);
    }
  }

  /** Prompts of 61 tokens in chunks of 8, of which two begin with the same 40. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "\"temperature\": 0",
        "\"temperature\": 0, \"n\": 3",
        "\"temperature\": 0.9, \"seed\": 11",
        "\"temperature\": 0.9, \"seed\": 11, \"n\": 3"
      })
  void chunksAndSharedBeginnings(String drawn, @TempDir Path directory) {
    int[] one = new Random(3).ints(61, 1, TinyCheckpoint.VOCAB).toArray();
    int[] other = new Random(4).ints(61, 1, TinyCheckpoint.VOCAB).toArray();
    System.arraycopy(one, 0, other, 0, 40);
    try (RealCluster tiny =
        new RealCluster(
            TinyCheckpoint.write(directory),
            engine -> engine.maxBatchSize(8).maxBatchTokens(8).kvCacheTokens(1024),
            router -> router)) {
      String fields = "{\"max_tokens\": 6, \"ignore_eos\": true, " + drawn;
      String rows = fields + ", " + ALL + "}";
      assertThat(cachedInTurn(tiny, rows, one, other)).containsOnly(0);
      String noRows = fields + ", \"logprobs\": 3, \"return_generation_logits\": true}";
      // In blocks of 16, and never the last token.
      assertThat(cachedInTurn(tiny, noRows, one, other)).containsExactly(0, 32, 48, 48);
      tiny.assertClean();
    }
  }

  private static List<Integer> cachedInTurn(
      RealCluster cluster, String body, int[] one, int[] other) {
    List<String> bodies =
        List.of(
            Answers.with(body, "prompt", one),
            Answers.with(Answers.streamed(body), "prompt", other),
            Answers.with(Answers.streamed(body), "prompt", one),
            Answers.with(body, "prompt", other));
    return Answers.requireSameInTurn(cluster.whole(), cluster.styles(), COMPLETIONS, bodies, body);
  }

  @Test
  void chats(@TempDir Path directory) throws IOException {
    Path model = TinyCheckpoint.write(directory);
    Files.writeString(
        model.resolve("chat_template.jinja"),
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:");
    try (RealCluster tiny =
        new RealCluster(model, engine -> engine.prefixReuse(false), router -> router)) {
      requireSame(
          tiny,
          "/v1/chat/completions",
          "{\"messages\": [{\"role\": \"user\", \"content\": \"hello there\"}], \"temperature\": 1,"
              + " \"seed\": 4, \"n\": 2, \"max_completion_tokens\": 7, \"logprobs\": true,"
              + " \"top_logprobs\": 2}");
      tiny.assertClean();
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "{\"prompt\": \"a\", \"top_p\": 2}",
        "{\"prompt\": \"a\", \"unknown\": 1}",
        "{\"prompt\": \"a\", \"model\": \"other\"}",
        "{\"prompt\": [5000]}",
        "{\"prompt\": []}",
        "{}",
        "{\"prompt\": \"a\", \"stream_options\": {}}",
        "{\"prompt\": \"a\"",
      })
  void errors(String body) {
    HttpResponse<String> expected = story.post(story.whole.url(), COMPLETIONS, body);
    assertThat(expected.statusCode()).isBetween(400, 499);
    story.routers.forEach(
        (style, router) -> {
          HttpResponse<String> answer = story.post(router.url(), COMPLETIONS, body);
          assertThat(answer.statusCode())
              .as(style + " " + answer.body())
              .isEqualTo(expected.statusCode());
          assertThat(answer.body()).as("" + style).isEqualTo(expected.body());
        });
    story.assertClean();
  }

  private static void requireSame(RealCluster cluster, String path, String body) {
    Answers.requireSame(cluster.whole(), cluster.styles(), path, body);
    cluster.assertClean();
  }
}
