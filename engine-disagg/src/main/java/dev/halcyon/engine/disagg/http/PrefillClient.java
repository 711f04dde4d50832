package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.Call;
import dev.halcyon.engine.disagg.server.Json;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodySubscribers;
import java.net.http.HttpTimeoutException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Asks prefill servers for prompts and first tokens. */
final class PrefillClient implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(PrefillClient.class);
  private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(5);
  private static final Duration CANCEL_TIMEOUT = Duration.ofSeconds(10);

  /** How long an answer that is whole may take to end. */
  private static final Duration END_TIMEOUT = Duration.ofSeconds(10);

  /** Errors that are the client's or pass, so that it hears of them as if there were one server. */
  private static final Set<Integer> RELAYED = Set.of(400, 413, 429, 503, 504);

  private final String apiKey;
  private final int maxBytes;
  private final HttpClient client;

  /**
   * @throws EngineException if the certificates to trust can't be read
   */
  PrefillClient(SplitOptions options) {
    this.apiKey = options.prefillApiKey();
    this.maxBytes = options.maxHandoverBytes();
    HttpClient.Builder builder =
        HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(CONNECT_TIMEOUT);
    if (options.prefillTrust() != null) {
      builder.sslContext(trusting(options.prefillTrust()));
    }
    this.client = builder.build();
  }

  private static SSLContext trusting(Path certificates) {
    try (InputStream in = Files.newInputStream(certificates)) {
      KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
      trusted.load(null, null);
      int count = 0;
      for (Certificate each : CertificateFactory.getInstance("X.509").generateCertificates(in)) {
        trusted.setCertificateEntry("c" + count++, each);
      }
      TrustManagerFactory factory =
          TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
      factory.init(trusted);
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(null, factory.getTrustManagers(), null);
      return context;
    } catch (IOException | GeneralSecurityException e) {
      throw new EngineException(
          "The certificates " + certificates + " for prefill servers can't be used: " + e, e);
    }
  }

  /**
   * Has a request's prompts computed, and be told in two events of what becomes of them.
   *
   * @param timeout until the first of them
   * @return what comes; cancelling it closes the connection
   */
  PrefillAnswer prefill(URI endpoint, ObjectNode body, Duration timeout) {
    PrefillAnswer answer = new PrefillAnswer();
    CompletableFuture<HttpResponse<byte[]>> sent =
        client.sendAsync(
            request(endpoint, "/prefill", body, timeout), info -> receive(info, answer));
    sent.whenComplete(
        (response, failure) -> {
          if (!answer.isWhole()) {
            answer.fail(ending(response, failure));
          }
        });
    unless(answer.offers(), timeout, () -> answer.fail(tooLate()));
    answer
        .firstTokens()
        .whenComplete(
            (nothing, failure) -> {
              if (failure != null) {
                sent.cancel(true);
              } else {
                // A connection that is closed before the answer's end would say to give it up.
                unless(sent, END_TIMEOUT, () -> sent.cancel(true));
              }
            });
    return answer;
  }

  /** Does something about what has not ended in time. */
  private static void unless(CompletableFuture<?> ended, Duration timeout, Runnable action) {
    ended
        .copy()
        .orTimeout(timeout.toNanos(), TimeUnit.NANOSECONDS)
        .whenComplete(
            (nothing, failure) -> {
              if (failure instanceof TimeoutException) {
                action.run();
              }
            });
  }

  /** Frees what a request has pinned there, if anything; nobody waits for it. */
  void cancel(URI endpoint, String requestId) {
    ObjectNode body = Json.object().put(SplitFields.REQUEST_ID, requestId);
    client
        .sendAsync(
            request(endpoint, "/prefill/cancel", body, CANCEL_TIMEOUT),
            HttpResponse.BodyHandlers.discarding())
        .whenComplete(
            (response, failure) -> {
              if (failure != null || response.statusCode() != 200) {
                LOG.warn(
                    "{} could not be told to give up request {}; it will by its timeout",
                    endpoint,
                    requestId);
              }
            });
  }

  private HttpRequest request(URI endpoint, String path, ObjectNode body, Duration timeout) {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create(endpoint + path))
            .timeout(timeout)
            .header("content-type", Call.JSON)
            .POST(HttpRequest.BodyPublishers.ofByteArray(Json.bytes(body)));
    if (apiKey != null) {
      request.header("authorization", "Bearer " + apiKey);
    }
    return request.build();
  }

  /** Takes events, or a body of a bounded size that is said beforehand, and no other. */
  private HttpResponse.BodySubscriber<byte[]> receive(
      HttpResponse.ResponseInfo info, PrefillAnswer answer) {
    String type = info.headers().firstValue("content-type").orElse("");
    if (info.statusCode() == 200 && type.startsWith("text/event-stream")) {
      return new EventReader(maxBytes, answer::event);
    }
    long length = info.headers().firstValueAsLong("content-length").orElse(Long.MAX_VALUE);
    return length <= maxBytes ? BodySubscribers.ofByteArray() : BodySubscribers.replacing(null);
  }

  /** What it means, unless everything came, that nothing more does. */
  private static ApiException ending(HttpResponse<byte[]> response, Throwable failure) {
    if (failure != null) {
      return failure.getCause() instanceof ApiException known ? known : unreachable(failure);
    }
    int status = response.statusCode();
    byte[] body = response.body();
    if (body == null) {
      return unusable("its body is too large, or of unknown length");
    } else if (status == 200) {
      return unusable("it ended too early, or was none of events");
    }
    try {
      return refusal(status, Json.parseObject(body).path("error"));
    } catch (ApiException e) {
      return unusable("status " + status + ", no JSON");
    }
  }

  /** An error that a prefill server told. */
  static ApiException refusal(int status, JsonNode error) {
    if (!RELAYED.contains(status) || !error.path("message").isTextual()) {
      return unusable("status " + status);
    }
    return new ApiException(
        status,
        error.path("type").asText("server_error"),
        error.path("code").textValue(),
        error.path("param").textValue(),
        error.path("message").textValue());
  }

  private static ApiException unreachable(Throwable failure) {
    Throwable cause = failure instanceof CompletionException ? failure.getCause() : failure;
    if (cause instanceof HttpTimeoutException && !(cause instanceof HttpConnectTimeoutException)) {
      return tooLate();
    }
    if (!(cause instanceof IOException || cause instanceof CancellationException)) {
      LOG.warn("A prefill server can't be asked", cause);
    }
    return ApiException.failed(
        503, "prefill_unavailable", "The prefill server can't be reached, or has closed");
  }

  /**
   * @param why for the log; clients have no use for it
   */
  static ApiException unusable(String why) {
    LOG.warn("A prefill server's answer is of no use: {}", why);
    return ApiException.failed(
        502, "prefill_failed", "The prefill server did not answer as one should");
  }

  static ApiException tooLate() {
    return ApiException.failed(504, "timeout", "The request took longer than this server allows");
  }

  /** From Java 21 on a client can be closed; before, its thread ends with its last reference. */
  @Override
  public void close() {
    if (client instanceof AutoCloseable closeable) {
      try {
        closeable.close();
      } catch (Exception e) {
        LOG.debug("The client for prefill servers was not closed", e);
      }
    }
  }
}
