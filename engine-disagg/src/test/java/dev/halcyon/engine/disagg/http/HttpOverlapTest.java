package dev.halcyon.engine.disagg.http;

import static dev.halcyon.engine.disagg.RawHttp.write;
import static dev.halcyon.engine.disagg.TestJson.json;
import static dev.halcyon.engine.disagg.Waiting.await;
import static dev.halcyon.engine.disagg.http.SplitServers.CHAT;
import static dev.halcyon.engine.disagg.http.SplitServers.COMPLETIONS;
import static dev.halcyon.engine.disagg.http.SplitServers.SPLIT;
import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.disagg.Ends;
import dev.halcyon.engine.disagg.FollowedTransport;
import dev.halcyon.engine.disagg.RawHttp;
import dev.halcyon.engine.disagg.router.FakeEndpoint;
import java.net.Socket;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Generation first: decode servers fetch prompts while prefill servers compute them. */
@Timeout(60)
class HttpOverlapTest {

  private static final String PROMPT =
      new Random(7).ints(40, 1, TinyCheckpoint.VOCAB).boxed().toList().toString();
  private static final String BODY =
      "{\"prompt\": "
          + PROMPT
          + ", \"max_tokens\": 6, \"n\": 2, \"seed\": 5, \"temperature\": 1.0, \"ignore_eos\": true,"
          + " \"logprobs\": 1, \"return_context_logits\": true, \"return_generation_logits\": true}";

  private final CountDownLatch gate = new CountDownLatch(1);
  private final FollowedTransport followed = new FollowedTransport(Ends.tcp());
  private SplitServers servers;

  /** The prefill engine stops behind its second chunk of 8 tokens until the gate is opened. */
  @BeforeEach
  void open(@TempDir Path directory) throws Exception {
    Path model = SplitServers.withTemplate(TinyCheckpoint.write(directory));
    followed.onComputed =
        computed -> {
          if (computed == 16) {
            try {
              gate.await(30, TimeUnit.SECONDS);
            } catch (InterruptedException e) {
              throw new AssertionError(e);
            }
          }
        };
    servers = SplitServers.of(model, followed.ends(), b -> b.maxBatchTokens(8));
  }

  /** Whatever a test did: the next request is right, and then nothing is left. */
  @AfterEach
  void requireGood() {
    gate.countDown();
    servers.assertClean();
    if (servers.prefill.get("/health").statusCode() == 200) {
      JsonNode expected = servers.whole.answer(COMPLETIONS, BODY).get("choices");
      assertThat(servers.decode.answer(COMPLETIONS, servers.generationFirst(BODY)).get("choices"))
          .isEqualTo(expected);
      servers.assertClean();
    }
    servers.close();
  }

  private CompletableFuture<HttpResponse<String>> posted(String path, String body) {
    return CompletableFuture.supplyAsync(
        () -> servers.decode.post(path, body), task -> new Thread(task).start());
  }

  private void awaitFetching() {
    await(
        "the decode engine fetches what is being computed",
        () -> servers.decode.engine.metrics().receivingPrompts() == 1);
    await("it hears how far that is", () -> followed.events.contains("progress"));
    assertThat(servers.prefill.engine.metrics().pinnedPrompts()).as("whole prompts").isZero();
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void theDecodeServerFetchesWhileThePromptIsComputed(boolean stream) {
    String body = SplitServers.with(BODY, "stream", stream);
    var answer = posted(COMPLETIONS, servers.generationFirst(body));
    awaitFetching();
    gate.countDown();
    HttpResponse<String> split = answer.join();
    assertThat(split.statusCode()).as(split.body()).isEqualTo(200);
    assertThat(followed.events).contains("computed 40", "written 40");
    if (!stream) {
      assertThat(json(split.body()).get("choices"))
          .isEqualTo(servers.whole.answer(COMPLETIONS, body).get("choices"));
    }
  }

  @Test
  void aChat() {
    String body =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"What is it that rabbits like?\"}],"
            + " \"temperature\": 0, \"max_tokens\": 4, \"logprobs\": true}";
    var answer = posted(CHAT, servers.generationFirst(body));
    awaitFetching();
    gate.countDown();
    assertThat(json(answer.join().body()).get("choices"))
        .isEqualTo(servers.whole.answer(CHAT, body).get("choices"));
  }

  @Test
  void aClientThatLeavesWhileThePromptIsComputed() throws Exception {
    try (Socket socket = servers.decode.socket()) {
      write(socket, RawHttp.post(COMPLETIONS, servers.generationFirst(BODY)));
      awaitFetching();
    }
    await(
        "the decode engine has given up",
        () -> servers.decode.engine.metrics().receivingPrompts() == 0);
  }

  @Test
  void aRequestThatIsCancelledWhereItIsComputed() {
    String body = servers.generationFirst(BODY);
    var answer = posted(COMPLETIONS, body);
    awaitFetching();
    String id = json(body).path(SPLIT).path("request_id").textValue();
    assertThat(servers.cancel(id)).isEqualTo("{\"cancelled\":true}");
    gate.countDown();
    // Its connection says so, and the one for keys and values: whichever is first is told.
    HttpResponse<String> refused = answer.join();
    assertThat(json(refused.body()).at("/error/code").textValue())
        .isIn("cancelled", "kv_transfer_cancelled");
    assertThat(refused.statusCode()).isIn(502, 503);
  }

  @Test
  void anEngineThatClosesWhileItComputes() {
    var answer = posted(COMPLETIONS, servers.generationFirst(BODY));
    awaitFetching();
    var closing = CompletableFuture.runAsync(servers.prefill.engine::close);
    gate.countDown();
    closing.join();
    // A closing engine lets what runs end, unless it was quick to refuse the rest.
    assertThat(answer.join().statusCode()).isIn(200, 502, 503);
  }

  @Test
  void badAnswersAreNotTheClientsFault() {
    gate.countDown();
    String id = servers.newId();
    String asked = SplitServers.with(BODY, SPLIT, SplitFields.contextOffered(id));
    HttpResponse<String> good = servers.prefill.postWithKey("/prefill", asked);
    assertThat(good.statusCode()).isEqualTo(200);
    String[] events = good.body().split("(?<=\n\n)");
    assertThat(events).hasSize(3);
    servers.cancel(id);
    String offers = events[0];
    requireFailed("data: {\n\n", offers);
    requireFailed("data: 3\n\n");
    requireFailed("data: {}\n\n");
    requireFailed("data: [DONE]\n\n");
    requireFailed(": " + "x".repeat(2_000_000) + "\n\n");
    requireFailed("data: " + "x".repeat(2_000_000));
    requireFailed(offers.replace("generation_first", "context_first"));
    requireFailed(offers.replaceFirst("\"kv_descriptor\":\"[^\"]*\"", "\"seed\":\"1\""));
    requireFailed(offers.replaceFirst("\"prompt_token_ids\":\\[\\d+", "\"prompt_token_ids\":[0"));
    requireFailed(offers.replace("\"offer\"", "\"rest\""));
    requireFailed(events[1], events[0]);
    requireFailed("data: {\"error\": {\"message\": \"m\", \"status\": 500}}\n\n");
    requireFailed("data: {\"error\": 7}\n\n");
    // Of a prompt that is not to be had there any more.
    assertThat(code(List.of(offers))).isIn("prefill_failed", "kv_transfer_unknown");
    assertThat(code(List.of(offers, "data: {}\n\n"))).isIn("prefill_failed", "kv_transfer_unknown");
    assertThat(
            code(
                List.of(
                    "data: {\"error\": {\"message\": \"m\", \"type\": \"server_error\", \"code\":"
                        + " \"out_of_memory\", \"status\": 503}}\n\n")))
        .isEqualTo("out_of_memory");
  }

  private void requireFailed(String... events) {
    assertThat(code(List.of(events))).as(() -> events[0]).isEqualTo("prefill_failed");
  }

  /** What a client is told of a prefill server that answers so, then ends. */
  private String code(List<String> events) {
    try (FakeEndpoint fake = new FakeEndpoint("fake")) {
      fake.on(
          "/prefill",
          (request, out) -> {
            out.eventsHead();
            for (String event : events) {
              out.chunk(event);
            }
            out.endChunks();
          });
      SplitOptions split =
          new SplitOptions(SplitOptions.Role.DECODE, List.of(fake.url()), "key", null, 1 << 20);
      HttpOptions options = TestServer.options().split(split).build();
      try (TestServer decode = new TestServer(servers.decode.engine, options)) {
        String body = SplitServers.with(BODY, SPLIT, servers.askingAt(fake.url().toString()));
        HttpResponse<String> response = decode.post(COMPLETIONS, body);
        assertThat(response.statusCode()).as(response.body()).isGreaterThanOrEqualTo(400);
        return json(response.body()).at("/error/code").textValue();
      }
    }
  }
}
