package dev.halcyon.engine.disagg.http;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.disagg.Answers;
import dev.halcyon.engine.disagg.Idleness;
import dev.halcyon.engine.disagg.TestClient;
import dev.halcyon.engine.disagg.TestJson;
import dev.halcyon.engine.disagg.Waiting;
import java.io.IOException;
import java.net.Socket;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;

/** A service on a free port, and what a test asks it. */
final class TestServer implements AutoCloseable {

  final Engine engine;
  final HttpService service;
  private final String key;
  private final TestClient client = new TestClient();

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
    return TestClient.request(service.url() + path);
  }

  HttpResponse<String> get(String path) {
    return send(request(path).build());
  }

  HttpResponse<String> post(String path, String body) {
    return send(TestClient.posting(service.url() + path, body).build());
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
        TestClient.posting(service.url() + path, body)
            .header("authorization", "Bearer " + key)
            .build());
  }

  String metrics() {
    return send(request("/metrics").header("authorization", "Bearer " + key).build()).body();
  }

  HttpResponse<String> send(HttpRequest request) {
    return client.send(request);
  }

  /** The body of the answer to a good request. */
  String good(String path, String body) {
    return TestClient.good(post(path, body));
  }

  /** The answer to a good request. */
  JsonNode answer(String path, String body) {
    return TestJson.json(good(path, body));
  }

  /** The events of a good stream, without the [DONE] that ended it. */
  List<JsonNode> events(String path, String body) {
    HttpResponse<String> response = post(path, body);
    String stream = TestClient.good(response);
    assertThat(response.headers().firstValue("content-type").orElseThrow())
        .startsWith("text/event-stream");
    return Answers.events(stream);
  }

  /** A connection of its own, for what a client library would not do. */
  Socket socket() throws IOException {
    Socket socket = new Socket("127.0.0.1", service.port());
    socket.setSoTimeout(30_000);
    return socket;
  }

  /** Waits until the engine has nothing to do, and every block is free. */
  void awaitIdle() {
    Waiting.await("the engine has nothing left", () -> Idleness.isIdle(engine));
    SamplingParams params = SamplingParams.builder().maxTokens(2).build();
    assertThat(engine.generate("Once", params).outputs()).hasSize(1);
  }
}
