package dev.halcyon.engine.disagg.router;

import static dev.halcyon.engine.disagg.TestJson.json;
import static dev.halcyon.engine.disagg.Waiting.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.disagg.RawHttp;
import dev.halcyon.engine.disagg.TestClient;
import dev.halcyon.engine.disagg.server.ServerOptions;
import java.io.IOException;
import java.net.Socket;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;

/** A router before scripted endpoints. */
final class RouterRig implements AutoCloseable {

  static final String COMPLETIONS = "/v1/completions";
  static final String BODY = "{\"prompt\": \"Once\"}";
  static final String STREAM = "{\"prompt\": \"Once\", \"stream\": true}";

  final List<FakeEndpoint> prefill = new ArrayList<>();
  final List<FakeEndpoint> decode = new ArrayList<>();
  DisaggService router;
  private final TestClient client = new TestClient();

  RouterRig(int prefills, int decodes, UnaryOperator<RouterOptions.Builder> change) {
    this(prefills, decodes, server(), change);
  }

  RouterRig(
      int prefills,
      int decodes,
      ServerOptions.Builder server,
      UnaryOperator<RouterOptions.Builder> change) {
    for (int i = 0; i < prefills; i++) {
      prefill.add(new FakeEndpoint("p" + i));
    }
    for (int i = 0; i < decodes; i++) {
      decode.add(new FakeEndpoint("d" + i));
    }
    router = start(server, change);
    for (FakeEndpoint each : all()) {
      await("it is checked for the first time", () -> each.answered().contains("/health"));
    }
  }

  private List<FakeEndpoint> all() {
    return Stream.concat(prefill.stream(), decode.stream()).toList();
  }

  /** Another router before the same endpoints. */
  DisaggService start(ServerOptions.Builder server, UnaryOperator<RouterOptions.Builder> change) {
    return DisaggService.start(
        change
            .apply(
                RouterOptions.builder()
                    .server(server.build())
                    .prefill(prefill.stream().map(FakeEndpoint::url).toList())
                    .decode(decode.stream().map(FakeEndpoint::url).toList())
                    .retryDelay(Duration.ofMillis(5))
                    .healthInterval(Duration.ofMinutes(10)))
            .build());
  }

  static ServerOptions.Builder server() {
    return ServerOptions.builder().port(0).drainTimeout(Duration.ofSeconds(5));
  }

  FakeEndpoint prefill() {
    return prefill.get(0);
  }

  FakeEndpoint decode() {
    return decode.get(0);
  }

  @Override
  public void close() {
    router.close();
    all().forEach(FakeEndpoint::close);
  }

  HttpResponse<String> get(String path) {
    return send(TestClient.request(router.url() + path).build());
  }

  HttpResponse<String> post(String path, String body) {
    return send(request(path, body));
  }

  CompletableFuture<HttpResponse<String>> postAsync(String path, String body) {
    return client.sendAsync(request(path, body));
  }

  HttpRequest request(String path, String body) {
    return TestClient.posting(router.url() + path, body).timeout(Duration.ofSeconds(30)).build();
  }

  HttpResponse<String> send(HttpRequest request) {
    return client.send(request);
  }

  /** A connection of its own, with a request sent. */
  Socket open(String path, String body) throws IOException {
    Socket socket = new Socket("127.0.0.1", router.port());
    socket.setSoTimeout(20_000);
    RawHttp.write(socket, RawHttp.post(path, body));
    return socket;
  }

  /** A metric's value; null if it is not there. */
  Double metric(String begin) {
    return get("/metrics")
        .body()
        .lines()
        .filter(line -> line.startsWith(begin))
        .map(line -> Double.valueOf(line.substring(line.lastIndexOf(' ') + 1)))
        .findFirst()
        .orElse(null);
  }

  /** Waits until no request runs or waits, and no endpoint has any of them. */
  void awaitIdle() {
    await("nothing runs", () -> metric("halcyon_router_running") == 0);
    await("nothing waits", () -> metric("halcyon_router_waiting") == 0);
    assertThat(get("/metrics").body().lines())
        .filteredOn(line -> line.startsWith("halcyon_router_endpoint_running"))
        .hasSize(prefill.size() + decode.size())
        .allMatch(line -> line.endsWith(" 0.0"));
  }

  /** The code of an answer that is an error. */
  static String code(HttpResponse<String> response) {
    return json(response.body()).path("error").path("code").asText();
  }
}
