package dev.halcyon.engine.disagg.http;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineClosedException;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.EngineFailedException;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.QueueFullException;
import dev.halcyon.engine.QueueFullPolicy;
import dev.halcyon.engine.RequestOutOfMemoryException;
import dev.halcyon.engine.RequestTooLargeException;
import dev.halcyon.engine.SamplingException;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.UnsupportedRequestException;
import dev.halcyon.engine.disagg.server.ApiException;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.util.concurrent.CompletionException;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** An engine that is full, closed or broken is said to be. */
class HttpEngineStateTest {

  private static final String COMPLETIONS = "/v1/completions";
  private static final String BODY = "{\"prompt\": \"Once\", \"max_tokens\": 2}";

  @Test
  void aFullQueueIsTooManyRequestsAndNothingOfTheRequestRuns() {
    try (Engine engine = TestServer.defaultModel().maxQueuedRequests(2).build();
        TestServer server = new TestServer(engine)) {
      dev.halcyon.engine.Gate gate = new dev.halcyon.engine.Gate();
      GenerationHandle held =
          engine.submit(
              GenerationRequest.of(
                  "a", SamplingParams.builder().maxTokens(1).logitsProcessor(gate).build()));
      gate.awaitEngine();
      HttpResponse<String> response =
          server.post(COMPLETIONS, "{\"prompt\": [\"a\", \"b\", \"c\"], \"max_tokens\": 2}");
      assertThat(response.statusCode()).isEqualTo(429);
      assertThat(response.headers().firstValue("retry-after")).contains("1");
      assertThat(response.body()).contains("\"code\":\"queue_full\"");
      gate.open();
      held.await();
      server.awaitIdle();
      server.answer(COMPLETIONS, BODY);
    }
  }

  @Test
  void aClosedEngineIsUnavailable() {
    Engine engine = TestServer.defaultModel().build();
    try (TestServer server = new TestServer(engine)) {
      engine.close();
      HttpResponse<String> response = server.post(COMPLETIONS, BODY);
      assertThat(response.statusCode()).isEqualTo(503);
      assertThat(response.body()).contains("\"code\":\"engine_closed\"");
      assertThat(server.get("/health").statusCode()).isEqualTo(503);
    }
  }

  static Stream<Arguments> failures() {
    return Stream.of(
        Arguments.of(new EngineFailedException("device 3 on host x lost"), 503, "engine_failed"),
        Arguments.of(new EngineClosedException("closed"), 503, "engine_closed"),
        Arguments.of(new QueueFullException("full"), 429, "queue_full"),
        Arguments.of(new RequestOutOfMemoryException("no room", null), 503, "out_of_memory"),
        Arguments.of(new RequestTooLargeException("large"), 400, "context_length_exceeded"),
        Arguments.of(new UnsupportedRequestException("not here"), 400, "unsupported"),
        Arguments.of(new CompletionException(new QueueFullException("full")), 429, "queue_full"),
        Arguments.of(new SamplingException("NaN"), 500, null),
        Arguments.of(new IllegalStateException("secret of the inside"), 500, null));
  }

  @ParameterizedTest
  @MethodSource("failures")
  void anErrorOfTheEngineHasItsStatus(Throwable failure, int status, String code) {
    ApiException told = Failures.of(failure);
    assertThat(told.status()).isEqualTo(status);
    assertThat(told.code()).isEqualTo(code);
    assertThat(told.getMessage()).doesNotContain("secret").doesNotContain("host x");
    boolean later = status == 429 || status == 503;
    assertThat(told.headers().containsKey("retry-after")).isEqualTo(later);
  }

  @Test
  void theEnginesNamesOfParametersBecomeThoseOfRequests() {
    IllegalArgumentException failure =
        catchThrowableOfType(
            IllegalArgumentException.class, () -> SamplingParams.builder().minP(2).build());
    ApiException told = Failures.of(failure);
    assertThat(told.param()).isEqualTo("min_p");
    assertThat(told.getMessage()).startsWith("'min_p' is 2.0, expected");
  }

  @Test
  void whatCantWorkIsRefusedAtTheStart() {
    try (Engine waiting = TestServer.defaultModel().queueFullPolicy(QueueFullPolicy.WAIT).build()) {
      assertThatThrownBy(() -> HttpService.start(waiting, TestServer.options().build()))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("queueFullPolicy");
    }
    try (Engine engine = TestServer.defaultModel().build();
        TestServer server = new TestServer(engine)) {
      HttpOptions taken = HttpOptions.builder().port(server.service.port()).build();
      assertThatThrownBy(() -> HttpService.start(engine, taken))
          .isInstanceOf(EngineException.class)
          .hasMessageContaining("" + server.service.port());
      Path none = Path.of("no-such-file.pem");
      assertThatThrownBy(
              () -> HttpService.start(engine, TestServer.options().tls(none, none).build()))
          .isInstanceOf(EngineException.class)
          .hasMessageContaining("TLS");
    }
    assertThatThrownBy(() -> HttpOptions.builder().port(70_000).build())
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("port");
    assertThat(HttpOptions.builder().apiKey("secret").build().toString()).doesNotContain("secret");
  }
}
