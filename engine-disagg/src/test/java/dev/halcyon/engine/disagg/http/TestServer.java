package dev.halcyon.engine.disagg.http;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.EngineMetrics;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.disagg.Answers;
import java.io.IOException;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.function.BooleanSupplier;

/** A service on a free port, and what a test asks it. */
final class TestServer implements AutoCloseable {

  static final ObjectMapper MAPPER = new ObjectMapper();

  final Engine engine;
  final HttpService service;
  private final String key;
  private final HttpClient client =
      HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

  TestServer(Engine engine, HttpOptions options) {
    this.engine = engine;
    this.service = HttpService.start(engine, options);
    this.key = options.server().apiKey();
  }

  TestServer(Engine engine) {
    this(engine, options().build());
  }

  static HttpOptions.Builder options() {
    return HttpOptions.builder().port(0);
  }

  static EngineBuilder defaultModel() {
    return Engine.builder()
        .defaultModel()
        .backend(BackendChoice.CPU)
        .threads(2)
        .integrityChecks(true);
  }

  /** Closes the service, not the engine. */
  @Override
  public void close() {
    service.close();
  }

  HttpRequest.Builder request(String path) {
    return HttpRequest.newBuilder(URI.create(service.url() + path)).timeout(Duration.ofMinutes(1));
  }

  HttpResponse<String> get(String path) {
    return send(request(path).build());
  }

  HttpResponse<String> post(String path, String body) {
    return post(path, body.getBytes(StandardCharsets.UTF_8));
  }

  HttpResponse<String> post(String path, byte[] body) {
    return send(
        request(path)
            .header("content-type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofByteArray(body))
            .build());
  }

  /** Posts with the server's own key. */
  HttpResponse<String> postWithKey(String path, String body) {
    return send(
        request(path)
            .header("content-type", "application/json")
            .header("authorization", "Bearer " + key)
            .POST(HttpRequest.BodyPublishers.ofString(body))
            .build());
  }

  String metrics() {
    return send(request("/metrics").header("authorization", "Bearer " + key).build()).body();
  }

  HttpResponse<String> send(HttpRequest request) {
    try {
      return client.send(request, HttpResponse.BodyHandlers.ofString());
    } catch (IOException e) {
      throw new AssertionError(e);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** The body of the answer to a good request. */
  String good(String path, String body) {
    HttpResponse<String> response = post(path, body);
    assertThat(response.statusCode()).as(response.body()).isEqualTo(200);
    return response.body();
  }

  /** The answer to a good request. */
  JsonNode answer(String path, String body) {
    return json(good(path, body));
  }

  /** The events of a good stream, without the [DONE] that ended it. */
  List<JsonNode> events(String path, String body) {
    HttpResponse<String> response = post(path, body);
    assertThat(response.statusCode()).as(response.body()).isEqualTo(200);
    assertThat(response.headers().firstValue("content-type").orElseThrow())
        .startsWith("text/event-stream");
    return Answers.events(response.body());
  }

  /** A connection of its own, for what a client library would not do. */
  Socket socket() throws IOException {
    Socket socket = new Socket("127.0.0.1", service.port());
    socket.setSoTimeout(30_000);
    return socket;
  }

  static void write(Socket socket, String text) throws IOException {
    socket.getOutputStream().write(text.getBytes(StandardCharsets.UTF_8));
    socket.getOutputStream().flush();
  }

  static String httpPost(String path, String body) {
    return "POST "
        + path
        + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
        + body.getBytes(StandardCharsets.UTF_8).length
        + "\r\n\r\n"
        + body;
  }

  /** All that comes until the server closes the connection. */
  static String readAll(Socket socket) throws IOException {
    return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
  }

  static JsonNode json(String text) {
    return Answers.json(text);
  }

  static void await(String what, BooleanSupplier condition) {
    long end = System.nanoTime() + Duration.ofSeconds(30).toNanos();
    while (!condition.getAsBoolean()) {
      assertThat(System.nanoTime()).as("waited too long until " + what).isLessThan(end);
      try {
        Thread.sleep(5);
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
    }
  }

  /** Waits until the engine has nothing to do, and every block is free. */
  void awaitIdle() {
    await(
        "the engine has nothing left",
        () -> {
          EngineMetrics metrics = engine.metrics();
          return metrics.runningSequences() == 0
              && metrics.waitingSequences() == 0
              && metrics.freeBlocks() == metrics.totalBlocks();
        });
    SamplingParams params = SamplingParams.builder().maxTokens(2).build();
    assertThat(engine.generate("Once", params).outputs()).hasSize(1);
  }
}
