package dev.halcyon.engine.disagg.http;

import static dev.halcyon.engine.disagg.RawHttp.write;
import static dev.halcyon.engine.disagg.TestJson.json;
import static dev.halcyon.engine.disagg.Waiting.await;
import static dev.halcyon.engine.disagg.http.SplitServers.COMPLETIONS;
import static dev.halcyon.engine.disagg.http.SplitServers.SPLIT;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineMetrics;
import dev.halcyon.engine.Gate;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.disagg.RawHttp;
import dev.halcyon.engine.disagg.codec.Mutations;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What goes wrong with a split request is said, and leaves nothing in any engine. */
class HttpSplitFaultTest {

  private static final String BODY =
      "{\"prompt\": [1, 2, 3, 4, 5], \"max_tokens\": 4, \"temperature\": 0, \"ignore_eos\": true,"
          + " \"logprobs\": 1, \"return_context_logits\": true}";
  private static final String LONG = SplitServers.with(BODY, "max_tokens", 240);

  private static Path model;
  private static SplitServers servers;

  @BeforeAll
  static void open(@TempDir Path directory) {
    model = TinyCheckpoint.write(directory);
    servers = SplitServers.of(model);
  }

  @AfterAll
  static void close() {
    servers.close();
  }

  /** Whatever a test did: the next request is right, and then nothing is left. */
  @AfterEach
  void requireGood() {
    JsonNode expected = servers.whole.answer(COMPLETIONS, BODY).get("choices");
    assertThat(servers.decode.answer(COMPLETIONS, servers.second(BODY)).get("choices"))
        .isEqualTo(expected);
    servers.assertClean();
  }

  private static JsonNode refused(HttpResponse<String> response, int status) {
    assertThat(response.statusCode()).as(response.body()).isEqualTo(status);
    JsonNode error = json(response.body()).get("error");
    assertThat(error.get("message").textValue()).isNotBlank();
    return error;
  }

  private static ObjectNode x(String body) {
    return (ObjectNode) servers.prefilled(body, servers.newId());
  }

  @Test
  void everyServerDoesItsPartAlone() {
    JsonNode x = servers.prefilled(BODY, "part");
    String second = SplitServers.with(BODY, SPLIT, x);
    assertThat(refused(servers.whole.post(COMPLETIONS, second), 400).get("param").textValue())
        .isEqualTo(SPLIT);
    refused(servers.whole.post("/prefill", BODY), 404);
    refused(servers.prefill.postWithKey(COMPLETIONS, BODY), 404);
    refused(servers.prefill.postWithKey("/prefill", BODY), 400);
    refused(servers.prefill.postWithKey("/prefill", second), 400);
    refused(servers.decode.post("/prefill", BODY), 404);
    String first = SplitServers.with(BODY, SPLIT, SplitFields.contextOnly("r"));
    assertThat(refused(servers.decode.post(COMPLETIONS, first), 400).get("param").textValue())
        .isEqualTo(SPLIT + ".request_type");
    refused(servers.prefill.post("/prefill", first), 401);
    servers.decode.answer(COMPLETIONS, BODY); // a whole request
    servers.decode.answer(COMPLETIONS, second);
  }

  @ParameterizedTest
  @CsvSource({
    "'', disaggregated_params.request_id",
    "a b, disaggregated_params.request_id",
    "\u00e9, disaggregated_params.request_id",
  })
  void aRequestHasAName(String id, String param) {
    String asked =
        SplitServers.with(BODY, SPLIT, Map.of("request_type", "context_only", "request_id", id));
    assertThat(refused(servers.prefill.postWithKey("/prefill", asked), 400).get("param").asText())
        .isEqualTo(param);
  }

  @Test
  void whatIsPinnedIsFreedOnDemand() {
    JsonNode x = servers.prefilled(BODY, "pinned");
    assertThat(servers.prefill.engine.metrics().pinnedPrompts()).isEqualTo(1);
    assertThat(servers.cancel("pinned")).isEqualTo("{\"cancelled\":true}");
    servers.assertClean();
    assertThat(servers.cancel("pinned")).isEqualTo("{\"cancelled\":false}");
    JsonNode error =
        refused(servers.decode.post(COMPLETIONS, SplitServers.with(BODY, SPLIT, x)), 409);
    assertThat(error.get("code").textValue()).isEqualTo("kv_transfer_unknown");
  }

  @Test
  void aPromptIsFetchedOnce() {
    String second = servers.second(BODY);
    servers.decode.answer(COMPLETIONS, second);
    refused(servers.decode.post(COMPLETIONS, second), 409);
    // So in a stream, which has not begun yet.
    refused(servers.decode.post(COMPLETIONS, SplitServers.with(second, "stream", true)), 409);
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aClientThatLeavesTheDecodeServerEndsItsRequest(boolean stream) throws Exception {
    String body = SplitServers.with(servers.second(LONG), "stream", stream);
    try (Stepped stepped = Stepped.of(servers.decode.engine)) {
      try (Socket socket = servers.decode.socket()) {
        write(socket, RawHttp.post(COMPLETIONS, body));
        await("it runs beside the other", () -> stepped.step().runningSequences() == 2);
      }
      await("one runs no more", () -> stepped.step().runningSequences() == 1);
      assertThat(stepped.handle().result()).as("the other's").isNotDone();
    }
    servers.assertClean();
  }

  /** Lets an engine go on step by step only, so that no request ends before a test looks. */
  private record Stepped(Engine engine, Semaphore steps, GenerationHandle handle)
      implements AutoCloseable {

    static Stepped of(Engine engine) {
      Semaphore steps = new Semaphore(0);
      SamplingParams params =
          SamplingParams.builder()
              .maxTokens(240)
              .ignoreEos(true)
              .logitsProcessor(
                  (prompt, generated, logits) -> {
                    steps.acquireUninterruptibly();
                    return logits;
                  })
              .build();
      return new Stepped(engine, steps, engine.submit(GenerationRequest.of(new int[] {1}, params)));
    }

    /** How it stands, a step further. */
    EngineMetrics step() {
      steps.release();
      return engine.metrics();
    }

    @Override
    public void close() {
      handle.cancel();
      steps.release(240);
      handle.await();
    }
  }

  /** Holds an engine, so that what comes next waits. */
  private record Held(Gate gate, GenerationHandle handle) implements AutoCloseable {

    static Held of(Engine engine) {
      Gate gate = new Gate();
      SamplingParams params = SamplingParams.builder().maxTokens(1).logitsProcessor(gate).build();
      GenerationHandle handle = engine.submit(GenerationRequest.of(new int[] {1}, params));
      gate.awaitEngine();
      return new Held(gate, handle);
    }

    @Override
    public void close() {
      gate.open();
      handle.await();
    }
  }

  @Test
  void aClientThatLeavesThePrefillServerLeavesNothingPinned() throws Exception {
    String asked = SplitServers.with(BODY, SPLIT, SplitFields.contextOnly("left"));
    try (Held held = Held.of(servers.prefill.engine)) {
      try (Socket socket = servers.prefill.socket()) {
        write(
            socket,
            RawHttp.post("/prefill", asked)
                .replace("Host: x", "Host: x\r\nAuthorization: Bearer of-the-prefill"));
        awaitCalls(servers.prefill, 1);
      }
      awaitCalls(servers.prefill, 0);
    }
    servers.assertClean();
    await("it is forgotten", () -> servers.cancel("left").equals("{\"cancelled\":false}"));
  }

  @Test
  void aRequestThatRunsIsCancelledByName() throws Exception {
    String asked = SplitServers.with(BODY, SPLIT, SplitFields.contextOnly("running"));
    CompletableFuture<HttpResponse<String>> answer;
    try (Held held = Held.of(servers.prefill.engine)) {
      answer = CompletableFuture.supplyAsync(() -> servers.prefill.postWithKey("/prefill", asked));
      awaitCalls(servers.prefill, 1);
      servers.cancel("running"); // or is just about to
    }
    refused(answer.get(30, TimeUnit.SECONDS), 503);
  }

  /** Who closes a connection behind a request, and cancels over another one, may be too early. */
  @Test
  void aRequestThatComesAfterItsCancelDoesNotRun() {
    assertThat(servers.cancel("early")).isEqualTo("{\"cancelled\":false}");
    String asked = SplitServers.with(BODY, SPLIT, SplitFields.contextOnly("early"));
    JsonNode error = refused(servers.prefill.postWithKey("/prefill", asked), 503);
    assertThat(error.get("code").textValue()).isEqualTo("cancelled");
    servers.assertClean();
    assertThat(servers.prefill.postWithKey("/prefill", asked).statusCode())
        .as("once")
        .isEqualTo(200);
    assertThat(servers.cancel("early")).isEqualTo("{\"cancelled\":true}");
    servers.assertClean();
  }

  @Test
  void generationFirstAsksOnlyWhomItKnows() {
    for (String url : List.of("http://127.0.0.1:2", "file:///etc", "x", "")) {
      String body = SplitServers.with(BODY, SPLIT, servers.askingAt(url));
      assertThat(refused(servers.decode.post(COMPLETIONS, body), 400).get("param").textValue())
          .isEqualTo(SPLIT + ".prefill");
    }
    String nobody = SplitServers.with(BODY, SPLIT, servers.askingAt(SplitServers.NOBODY));
    JsonNode error = refused(servers.decode.post(COMPLETIONS, nobody), 503);
    assertThat(error.get("code").textValue()).isEqualTo("prefill_unavailable");
  }

  @Test
  void generationFirstSaysWhatThePrefillServerSays() {
    try (SplitServers other = SplitServers.of(model)) {
      other.prefill.engine.close();
      JsonNode error = refused(other.decode.post(COMPLETIONS, other.generationFirst(BODY)), 503);
      assertThat(error.get("code").textValue()).isEqualTo("engine_closed");
    }
  }

  @Test
  void aWrongKeyForThePrefillServerIsNotTheClientsFault() {
    SplitOptions split =
        SplitOptions.decode(List.of(URI.create(servers.prefill.service.url())), "another");
    HttpOptions options = TestServer.options().split(split).build();
    try (TestServer decode = new TestServer(servers.decode.engine, options)) {
      JsonNode error = refused(decode.post(COMPLETIONS, servers.generationFirst(BODY)), 502);
      assertThat(error.get("code").textValue()).isEqualTo("prefill_failed");
    }
  }

  @Test
  void aClientThatLeavesBeforeThePromptIsComputedLeavesNothing() throws Exception {
    try (Held held = Held.of(servers.prefill.engine);
        Socket socket = servers.decode.socket()) {
      write(socket, RawHttp.post(COMPLETIONS, servers.generationFirst(BODY)));
      awaitCalls(servers.prefill, 1);
      socket.close();
      awaitCalls(servers.prefill, 0);
      awaitCalls(servers.decode, 0);
    }
    servers.assertClean();
  }

  @Test
  void generationFirstTakesItsPlaceInTheQueueFirst() {
    try (SplitServers few =
        SplitServers.withDecode(
            model, SplitServers.engine(model).maxQueuedRequests(2), TestServer.options())) {
      long before = few.prefill.engine.metrics().promptTokens();
      String three = SplitServers.with(BODY, "prompt", List.of("a", "b", "c"));
      JsonNode error = refused(few.decode.post(COMPLETIONS, few.generationFirst(three)), 429);
      assertThat(error.get("code").textValue()).isEqualTo("queue_full");
      assertThat(few.prefill.engine.metrics().promptTokens()).isEqualTo(before);
      few.decode.answer(COMPLETIONS, few.generationFirst(BODY));
      few.assertClean();
    }
  }

  /** The decode server learns that it has another model when the prompt is computed already. */
  @Test
  void aDecodeServerThatFailsFreesWhatItHadPinned(@TempDir Path directory) {
    Path other = TinyCheckpoint.write(directory, TinyCheckpoint.VOCAB + 8);
    try (SplitServers mixed =
        SplitServers.withDecode(model, SplitServers.engine(other), TestServer.options())) {
      String body = "{\"prompt\": [1, 2, 3, 4, 5], \"max_tokens\": 4, \"model\": null}";
      JsonNode error = refused(mixed.decode.post(COMPLETIONS, mixed.generationFirst(body)), 400);
      assertThat(error.get("code").textValue()).isEqualTo("kv_transfer_refused");
      mixed.assertClean(); // long before the transfer timeout
    }
  }

  @Test
  void aPromptThatNobodyFetchesIsGivenUp() {
    Duration soon = Duration.ofMillis(150);
    try (SplitServers hasty = SplitServers.of(model, b -> b.kvTransferTimeout(soon))) {
      String second = hasty.second(BODY);
      hasty.assertClean();
      refused(hasty.decode.post(COMPLETIONS, second), 409);
    }
  }

  @Test
  void whatIsHandedOverHasToFitTheRequest() {
    ObjectNode x = x(BODY);
    String prompts = SPLIT + ".prompts";
    requireWrong(prompts, x, with -> with.putArray("prompts"));
    requireWrong(prompts, x, with -> with.remove("prompts"));
    requireWrong(prompts + "[0].prompt_token_ids", x, with -> ids(with).set(0, ids(with).get(1)));
    requireWrong(prompts + "[0].prompt_token_ids", x, with -> ids(with).add(448));
    requireWrong(prompts + "[0]", x, with -> prompt(with).remove("rest"));
    requireWrong(prompts + "[0].more", x, with -> prompt(with).put("more", 1));
    requireWrong(
        prompts + "[0].rest.request_type",
        x,
        with -> {
          ObjectNode rest = prompt(with).putObject("rest");
          rest.put("request_type", "context_only").put("request_id", "r");
        });
    requireWrong(
        prompts + "[0].rest.usage.prompt_tokens",
        x,
        with -> ((ObjectNode) with.at("/prompts/0/rest/usage")).put("prompt_tokens", 4));
    requireWrong(null, x, with -> ((ObjectNode) prompt(with).get("rest")).remove("context_logits"));
    requireWrong(SPLIT + ".more", x, with -> with.put("more", 1));
    requireWrong(SPLIT + ".schedule_style", x, with -> with.put("schedule_style", "both"));
    // Another request: three outputs, of which the first tokens are not there.
    refused(
        servers.decode.post(
            COMPLETIONS, SplitServers.with(SplitServers.with(BODY, "n", 3), SPLIT, x)),
        400);
    servers.cancel(x.get("request_id").textValue());
  }

  @Test
  void aResultThatIsHandedOverHasToFitTheRequest() {
    String one = SplitServers.with(BODY, "max_tokens", 1);
    ObjectNode x = x(one);
    String result = SPLIT + ".prompts[0].result";
    requireWrong(result + ".outputs", x, with -> result(with).putArray("outputs"));
    requireWrong(result + ".context_logits", x, with -> result(with).remove("context_logits"));
    requireWrong(result + ".usage", x, with -> result(with).remove("usage"));
    requireWrong(result + ".outputs[0]", x, with -> output(with).remove("logprobs"));
    requireWrong(result + ".outputs[0].text", x, with -> output(with).remove("text"));
    requireWrong(
        result + ".outputs[0].finish_reason",
        x,
        with -> output(with).put("finish_reason", "error"));
    requireWrong(result + ".outputs[0].logprobs", x, with -> output(with).putArray("token_ids"));
    servers.decode.answer(COMPLETIONS, SplitServers.with(one, SPLIT, x));
  }

  private interface Change {
    void of(ObjectNode x);
  }

  private static void requireWrong(String param, ObjectNode sound, Change change) {
    ObjectNode x = sound.deepCopy();
    change.of(x);
    JsonNode error =
        refused(servers.decode.post(COMPLETIONS, SplitServers.with(BODY, SPLIT, x)), 400);
    assertThat(error.get("param").textValue()).isEqualTo(param);
  }

  private static ObjectNode prompt(ObjectNode x) {
    return (ObjectNode) x.at("/prompts/0");
  }

  private static ArrayNode ids(ObjectNode x) {
    return (ArrayNode) x.at("/prompts/0/prompt_token_ids");
  }

  private static ObjectNode result(ObjectNode x) {
    return (ObjectNode) x.at("/prompts/0/result");
  }

  private static ObjectNode output(ObjectNode x) {
    return (ObjectNode) x.at("/prompts/0/result/outputs/0");
  }

  /** Within one process, so that no damaged address leads out of it. */
  @Test
  void mutatedHandoversAreRefused() {
    try (SplitServers inside = SplitServers.inProcess(model)) {
      String plain = "{\"prompt\": [1, 2, 3], \"max_tokens\": 2}";
      String scored = SplitServers.with(plain, "logprobs", 2);
      String full = SplitServers.with(scored, "prompt_logprobs", 1);
      full = SplitServers.with(full, "return_generation_logits", true);
      String ended = SplitServers.with(scored, "max_tokens", 1);
      String[] bodies = {plain, scored, full, ended};
      Map<Integer, Integer> statuses = new TreeMap<>();
      Random random = new Random(17);
      for (String body : bodies) {
        JsonNode x = null;
        for (int i = 0; i < 750; i++) {
          if (x == null) {
            x = inside.prefilled(body, "fuzz");
          }
          byte[] sound = x.toString().getBytes(StandardCharsets.UTF_8);
          byte[] damaged = Mutations.of(sound, 1 + random.nextInt(2), random);
          int status = inside.decode.post(COMPLETIONS, withRaw(body, damaged)).statusCode();
          statuses.merge(status, 1, Integer::sum);
          assertThat(status)
              .as(new String(damaged, StandardCharsets.ISO_8859_1))
              .isIn(200, 400, 409);
          x = status == 200 ? null : x;
        }
        inside.cancel("fuzz");
        inside.assertClean();
      }
      assertThat(statuses.get(400)).isGreaterThan(1500);
      assertThat(statuses).containsKey(200);
      assertThat(inside.decode.answer(COMPLETIONS, inside.second(full)).get("choices"))
          .isEqualTo(inside.whole.answer(COMPLETIONS, full).get("choices"));
      inside.assertClean();
    }
  }

  private static byte[] withRaw(String body, byte[] x) {
    String before = body.substring(0, body.length() - 1) + ",\"" + SPLIT + "\":";
    byte[] head = before.getBytes(StandardCharsets.UTF_8);
    byte[] all = new byte[head.length + x.length + 1];
    System.arraycopy(head, 0, all, 0, head.length);
    System.arraycopy(x, 0, all, head.length, x.length);
    all[all.length - 1] = '}';
    return all;
  }

  @Test
  void aServerTakesPartOnlyIfItsEngineCan() {
    for (SplitOptions split :
        List.of(SplitOptions.prefill(), SplitOptions.decode(List.of(), null))) {
      assertThatThrownBy(
              () ->
                  HttpService.start(
                      servers.whole.engine, TestServer.options().split(split).build()))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("kvTransport");
    }
    for (String url : List.of("ftp://x", "http:///x", "http://u:p@x", "http://x?y", "x")) {
      assertThatThrownBy(() -> SplitOptions.decode(List.of(URI.create(url)), null))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("prefillEndpoints");
    }
  }

  /** Waits until a server has so many calls, besides the one that asks. */
  private static void awaitCalls(TestServer server, int calls) {
    String line = "halcyon_http_calls " + (calls + 1) + ".0";
    await(calls + " calls", () -> server.metrics().contains(line));
  }
}
