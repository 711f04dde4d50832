package dev.halcyon.engine.disagg.http;

import static dev.halcyon.engine.disagg.RawHttp.readAll;
import static dev.halcyon.engine.disagg.RawHttp.readUntil;
import static dev.halcyon.engine.disagg.RawHttp.write;
import static dev.halcyon.engine.disagg.TestJson.json;
import static dev.halcyon.engine.disagg.Waiting.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.Engine;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.disagg.RawHttp;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Clients that are slow, vanish, or come in numbers cost nothing that stays. */
class HttpClientsTest {

  private static final String COMPLETIONS = "/v1/completions";
  private static final String LONG =
      "{\"prompt\": \"Once\", \"max_tokens\": 1000, \"ignore_eos\": true";

  private static Engine engine;

  @BeforeAll
  static void open() {
    engine = TestServer.defaultModel().build();
  }

  @AfterAll
  static void close() {
    engine.close();
  }

  private static long cancelled() {
    return engine.metrics().finished().getOrDefault(FinishReason.CANCELLED, 0L);
  }

  @Test
  void aClientThatGoesAwayEndsItsRequestWhetherStreamedOrNot() throws Exception {
    try (TestServer server = new TestServer(engine)) {
      for (String body : List.of(LONG + "}", LONG + ", \"n\": 4, \"stream\": true}")) {
        long before = cancelled();
        try (Socket socket = server.socket()) {
          write(socket, RawHttp.post(COMPLETIONS, body));
          await("it runs", () -> engine.metrics().runningSequences() > 0);
        }
        server.awaitIdle();
        assertThat(cancelled()).isGreaterThan(before);
      }
      assertThat(server.get("/metrics").body()).contains("status=\"gone\"} 2");
    }
  }

  /** The events are large, so that they soon fill what the system keeps for a socket. */
  @Test
  void aReaderThatStallsIsCutOffAndHoldsUpNobody() throws Exception {
    HttpOptions options = TestServer.options().stallTimeout(Duration.ofMillis(700)).build();
    try (TestServer server = new TestServer(engine, options)) {
      long before = cancelled();
      try (Socket stalled = new Socket()) {
        stalled.setReceiveBufferSize(4096);
        stalled.connect(new InetSocketAddress("127.0.0.1", server.service.port()));
        // Each token comes with 20 others: some 1.5 KB. 14 prompts of 900 tokens are 18 MB.
        String prompts = "[\"a\"" + ", \"a\"".repeat(13) + "]";
        write(
            stalled,
            RawHttp.post(
                COMPLETIONS,
                "{\"prompt\": "
                    + prompts
                    + ", \"max_tokens\": 1000, \"ignore_eos\": true, \"logprobs\": 20,"
                    + " \"stream\": true}"));
        readUntil(stalled, "data: ");
        assertThat(server.answer(COMPLETIONS, "{\"prompt\": \"The cat\", \"max_tokens\": 4}"))
            .isNotNull();
        await("the stalled reader is cut off", () -> cutOff(server) >= 1);
      }
      server.awaitIdle();
      assertThat(cancelled()).isGreaterThan(before);
    }
  }

  private static double cutOff(TestServer server) {
    String line =
        server
            .get("/metrics")
            .body()
            .lines()
            .filter(each -> each.startsWith("halcyon_http_cut_off_total "))
            .findFirst()
            .orElseThrow();
    return Double.parseDouble(line.substring(line.indexOf(' ') + 1));
  }

  @Test
  void slowSendersAndIdlersAreCutOff() throws Exception {
    HttpOptions options =
        TestServer.options()
            .bodyTimeout(Duration.ofMillis(200))
            .idleTimeout(Duration.ofMillis(900))
            .build();
    try (TestServer server = new TestServer(engine, options);
        Socket slow = server.socket();
        Socket slowHead = server.socket();
        Socket idle = server.socket()) {
      String whole = RawHttp.post(COMPLETIONS, "{\"prompt\": \"a\"}");
      write(slow, whole.substring(0, whole.length() - 3));
      write(slowHead, "GET /health HTT");
      assertThat(readAll(slow)).startsWith("HTTP/1.1 408 ").contains("\"code\":\"timeout\"");
      assertThat(readAll(slowHead)).isEmpty();
      assertThat(readAll(idle)).isEmpty();
    }
  }

  @Test
  void aConnectionIsKeptAndTakesRequestsAhead() throws Exception {
    try (TestServer server = new TestServer(engine);
        Socket socket = server.socket()) {
      StringBuilder all = new StringBuilder();
      for (int i = 0; i < 40; i++) {
        String body = "{\"prompt\": \"a\", \"max_tokens\": 1, \"stop\": \"x" + i + "\"}";
        all.append(i % 3 == 0 ? RawHttp.post(COMPLETIONS, body) : "GET /health HTTP/1.1\r\n\r\n");
      }
      // Thousands that are answered at once must not pile up on the stack.
      all.append("GET /nothing HTTP/1.1\r\n\r\n".repeat(5000));
      all.append("GET /health HTTP/1.1\r\nConnection: close\r\n\r\n");
      Thread writer = new Thread(() -> writeQuietly(socket, all.toString()));
      writer.start();
      String answers = readAll(socket);
      writer.join();
      assertThat(answers.split("HTTP/1.1 200 OK", -1)).hasSize(1 + 40 + 1);
      assertThat(answers.split("HTTP/1.1 404 Not Found", -1)).hasSize(1 + 5000);
    }
  }

  private static void writeQuietly(Socket socket, String text) {
    try {
      write(socket, text);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Test
  void silenceIsBrokenByHeartbeats() throws Exception {
    HttpOptions options = TestServer.options().heartbeat(Duration.ofMillis(30)).build();
    try (TestServer server = new TestServer(engine, options);
        Socket socket = server.socket()) {
      // As long as others are computed first, there is nothing to say.
      List<Future<?>> others = new ArrayList<>();
      ExecutorService pool = Executors.newFixedThreadPool(4);
      for (int i = 0; i < 4; i++) {
        others.add(
            pool.submit(
                () ->
                    server.answer(
                        COMPLETIONS,
                        "{\"prompt\": \"a\", \"n\": 8, \"max_tokens\": 60, \"ignore_eos\": true,"
                            + " \"priority\": 5}")));
      }
      await("they wait", () -> engine.metrics().waitingSequences() > 0);
      write(
          socket,
          RawHttp.post(COMPLETIONS, "{\"prompt\": \"a\", \"max_tokens\": 2, \"stream\": true}"));
      readUntil(socket, ": still here\n\n");
      readUntil(socket, "data: [DONE]");
      for (Future<?> other : others) {
        other.get(30, TimeUnit.SECONDS);
      }
      pool.shutdown();
    }
  }

  /** Half of them go away somewhere on the way; what is left is nothing. */
  @Test
  void hundredsOfStreamsWithDisconnectsLeaveNothing() throws Exception {
    int before = threads();
    TestServer server = new TestServer(engine);
    AtomicInteger done = new AtomicInteger();
    int streams = 240;
    ExecutorService clients = Executors.newFixedThreadPool(60);
    List<Future<?>> all = new ArrayList<>();
    for (int i = 0; i < streams; i++) {
      Random random = new Random(0x9E3779B97F4A7C15L * i);
      all.add(clients.submit(() -> oneStream(server, random, done)));
    }
    for (Future<?> each : all) {
      each.get(100, TimeUnit.SECONDS);
    }
    clients.shutdown();
    assertThat(done.get()).isBetween(streams / 4, 3 * streams / 4);
    server.awaitIdle();
    String metrics = server.get("/metrics").body();
    assertThat(metrics).contains("halcyon_http_calls 1.0"); // this one
    server.close();
    await("threads are gone", () -> threads() <= before);
  }

  private static Void oneStream(TestServer server, Random random, AtomicInteger done)
      throws IOException {
    boolean leaves = random.nextBoolean();
    int most = leaves ? 200 : 3;
    try (Socket socket = server.socket()) {
      write(
          socket,
          RawHttp.post(
              COMPLETIONS,
              "{\"prompt\": \"Once upon\", \"ignore_eos\": true, \"max_tokens\": "
                  + most
                  + ", \"n\": "
                  + (1 + random.nextInt(2))
                  + ", \"stream\": "
                  + (!leaves || random.nextBoolean())
                  + "}"));
      if (!leaves) {
        readUntil(socket, "data: [DONE]");
        done.incrementAndGet();
      } else if (random.nextBoolean()) {
        socket.setSoTimeout(50 + random.nextInt(100));
        try {
          socket.getInputStream().read(new byte[1 + random.nextInt(2000)]);
        } catch (SocketTimeoutException e) {
          // it leaves before anything came
        }
      }
      if (random.nextInt(3) == 0) {
        socket.setSoLinger(true, 0); // a reset in place of an orderly end
      }
    }
    return null;
  }

  private static int threads() {
    return (int)
        Thread.getAllStackTraces().keySet().stream()
            .map(Thread::getName)
            .filter(name -> name.startsWith("halcyon-http"))
            .count();
  }

  @Test
  void closingLetsRunningRequestsEnd() throws Exception {
    TestServer server = new TestServer(engine);
    try (Socket idle = server.socket();
        Socket streaming = server.socket();
        Socket whole = server.socket()) {
      write(
          streaming,
          RawHttp.post(
              COMPLETIONS,
              "{\"prompt\": \"Once\", \"max_tokens\": 400, \"ignore_eos\": true, \"stream\": true}"));
      write(
          whole,
          RawHttp.post(
              COMPLETIONS, "{\"prompt\": \"Once\", \"max_tokens\": 400, \"ignore_eos\": true}"));
      readUntil(streaming, "data: ");
      await("both run", () -> engine.metrics().runningSequences() == 2);
      Thread closer = new Thread(server::close);
      closer.start();
      assertThat(readAll(streaming)).endsWith("data: [DONE]\n\n\r\n0\r\n\r\n");
      assertThat(readAll(whole)).startsWith("HTTP/1.1 200 OK").contains("\"finish_reason\"");
      assertThat(readAll(idle)).isEmpty();
      closer.join(10_000);
      assertThat(closer.isAlive()).isFalse();
    }
    server.awaitIdle();
    int port = server.service.port();
    assertThat(refusesConnections(port)).isTrue();
    server.close(); // twice is harmless
  }

  private static boolean refusesConnections(int port) {
    try (Socket socket = new Socket("127.0.0.1", port)) {
      return false;
    } catch (IOException e) {
      return true;
    }
  }

  @Test
  void whatDoesNotEndInTimeIsEndedWithAnError() throws Exception {
    HttpOptions options = TestServer.options().drainTimeout(Duration.ofMillis(50)).build();
    TestServer server = new TestServer(engine, options);
    try (Socket streaming = server.socket();
        Socket whole = server.socket()) {
      write(streaming, RawHttp.post(COMPLETIONS, LONG + ", \"stream\": true}"));
      write(whole, RawHttp.post(COMPLETIONS, LONG + "}"));
      readUntil(streaming, "data: ");
      await("both run", () -> engine.metrics().runningSequences() == 2);
      server.close();
      assertThat(readAll(streaming)).contains("shutting_down").doesNotContain("[DONE]");
      assertThat(readAll(whole)).startsWith("HTTP/1.1 503 ").contains("shutting_down");
    }
    server.awaitIdle();
  }

  @Test
  void aRequestMayTakeSoLongAndNoLonger() {
    HttpOptions options = TestServer.options().requestTimeout(Duration.ofMillis(150)).build();
    try (TestServer server = new TestServer(engine, options)) {
      HttpResponse<String> whole = server.post(COMPLETIONS, LONG + "}");
      assertThat(whole.statusCode()).isEqualTo(504);
      assertThat(whole.body()).contains("\"code\":\"timeout\"");
      HttpResponse<String> stream = server.post(COMPLETIONS, LONG + ", \"stream\": true}");
      assertThat(stream.body()).contains("\"code\":\"timeout\"").doesNotContain("[DONE]");
      server.awaitIdle();
    }
  }

  @Test
  void thereAreOnlySoManyConnections() throws Exception {
    HttpOptions options = TestServer.options().maxConnections(2).build();
    try (TestServer server = new TestServer(engine, options);
        Socket first = server.socket();
        Socket second = server.socket()) {
      write(first, "GET /health HTTP/1.1\r\n\r\n");
      readUntil(first, "ok");
      write(second, "GET /health HTTP/1.1\r\n\r\n");
      readUntil(second, "ok");
      try (Socket third = server.socket()) {
        assertThat(readAll(third)).startsWith("HTTP/1.1 503 ").contains("too_many_connections");
      }
      first.close();
      await("there is room again", () -> server.get("/health").statusCode() == 200);
    }
  }

  @Test
  void browsersComeInForPagesThatAreAllowed() {
    HttpOptions options =
        TestServer.options().allowedOrigins(List.of("https://good.example")).build();
    try (TestServer server = new TestServer(engine, options)) {
      HttpResponse<String> good = from(server, "https://good.example", "GET");
      assertThat(good.statusCode()).isEqualTo(200);
      assertThat(good.headers().firstValue("access-control-allow-origin"))
          .contains("https://good.example");
      HttpResponse<String> asked = from(server, "https://good.example", "OPTIONS");
      assertThat(asked.statusCode()).isEqualTo(204);
      assertThat(asked.headers().firstValue("access-control-allow-headers"))
          .contains("authorization, content-type");
      HttpResponse<String> bad = from(server, "https://evil.example", "GET");
      assertThat(bad.statusCode()).isEqualTo(403);
      assertThat(bad.headers().firstValue("access-control-allow-origin")).isEmpty();
    }
    try (TestServer server = new TestServer(engine)) {
      assertThat(from(server, "http://127.0.0.1", "GET").statusCode()).isEqualTo(403);
      assertThat(server.get("/health").headers().firstValue("access-control-allow-origin"))
          .isEmpty();
    }
  }

  private static HttpResponse<String> from(TestServer server, String origin, String method) {
    return server.send(
        server
            .request("/health")
            .header("origin", origin)
            .method(method, HttpRequest.BodyPublishers.noBody())
            .build());
  }

  @Test
  void theKeyIsAskedForEverywhereButForHealth() {
    try (TestServer server = new TestServer(engine, TestServer.options().apiKey("k1").build())) {
      assertThat(server.get("/health").statusCode()).isEqualTo(200);
      for (String path : List.of("/v1/models", "/metrics")) {
        HttpResponse<String> none = server.get(path);
        assertThat(none.statusCode()).isEqualTo(401);
        assertThat(none.headers().firstValue("www-authenticate")).contains("Bearer");
        assertThat(withKey(server, path, "Bearer k")).isEqualTo(401);
        assertThat(withKey(server, path, "Basic k1")).isEqualTo(401);
        assertThat(withKey(server, path, "Bearer k1")).isEqualTo(200);
        assertThat(withKey(server, path, "bearer k1")).isEqualTo(200);
      }
      assertThat(server.post(COMPLETIONS, "{\"prompt\": \"a\"}").statusCode()).isEqualTo(401);
    }
  }

  private static int withKey(TestServer server, String path, String authorization) {
    return server
        .send(server.request(path).header("authorization", authorization).build())
        .statusCode();
  }

  @Test
  void textThatIsNotAsciiGoesAndComesInUtf8() {
    try (TestServer server = new TestServer(engine)) {
      String prompt = "caf\u00e9 \uD83E\uDD8A \\ud83e \u0000".replace("\u0000", "\\u0000");
      HttpResponse<String> response =
          server.post(
              COMPLETIONS,
              ("{\"prompt\": \"" + prompt + "\", \"max_tokens\": 1, \"echo\": true}")
                  .getBytes(StandardCharsets.UTF_8));
      // A lone surrogate has no UTF-8: a question mark stands for it.
      assertThat(json(response.body()).get("choices").get(0).get("text").textValue())
          .startsWith("caf\u00e9 \uD83E\uDD8A ? \u0000");
    }
  }
}
