package dev.halcyon.engine.disagg;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/** A client of servers over HTTP/1.1, which keeps its connections. */
public final class TestClient {

  private static final Duration TIMEOUT = Duration.ofMinutes(1);

  private final HttpClient client =
      HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

  /** A request that gets, if it is told nothing else, and has a minute to be answered. */
  public static HttpRequest.Builder request(String url) {
    return HttpRequest.newBuilder(URI.create(url)).timeout(TIMEOUT);
  }

  /** A request that posts JSON, and has a minute to be answered. */
  public static HttpRequest.Builder posting(String url, String json) {
    return request(url)
        .header("content-type", "application/json")
        .POST(HttpRequest.BodyPublishers.ofString(json));
  }

  public HttpResponse<String> send(HttpRequest request) {
    try {
      return client.send(request, HttpResponse.BodyHandlers.ofString());
    } catch (IOException e) {
      throw new AssertionError(request.toString(), e);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  public CompletableFuture<HttpResponse<String>> sendAsync(HttpRequest request) {
    return client.sendAsync(request, HttpResponse.BodyHandlers.ofString());
  }

  /** The body of an answer, which has to be a good one. */
  public static String good(HttpResponse<String> response) {
    assertThat(response.statusCode()).as(response.body()).isEqualTo(200);
    return response.body();
  }
}
