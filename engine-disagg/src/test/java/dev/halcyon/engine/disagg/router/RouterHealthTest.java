package dev.halcyon.engine.disagg.router;

import static dev.halcyon.engine.disagg.RawHttp.readUntil;
import static dev.halcyon.engine.disagg.TestJson.json;
import static dev.halcyon.engine.disagg.Waiting.await;
import static dev.halcyon.engine.disagg.router.RouterRig.BODY;
import static dev.halcyon.engine.disagg.router.RouterRig.COMPLETIONS;
import static dev.halcyon.engine.disagg.router.RouterRig.STREAM;
import static dev.halcyon.engine.disagg.router.RouterRig.code;
import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.disagg.router.FakeEndpoint.Reply;
import java.net.Socket;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Which endpoints get requests, by what checks and calls of them came to. */
class RouterHealthTest {

  private static final Reply BROKEN = (request, out) -> out.breakOff();

  private static RouterOptions.Builder quickChecks(RouterOptions.Builder options) {
    return options
        .choice(ChoicePolicy.ROUND_ROBIN)
        .healthInterval(Duration.ofMillis(20))
        .healthTimeout(Duration.ofMillis(300));
  }

  private static boolean isUp(RouterRig rig, FakeEndpoint endpoint) {
    return rig.metric("halcyon_router_endpoint_up{endpoint=\"" + endpoint.url() + "\"") == 1;
  }

  @Test
  void countsInARow() {
    Health health = new Health(3, 2);
    assertThat(health.isUp()).as("at first").isTrue();
    assertThat(health.failed()).isFalse();
    assertThat(health.failed()).isFalse();
    health.callSucceeded();
    assertThat(health.failed()).isFalse();
    assertThat(health.failed()).isFalse();
    assertThat(health.checkSucceeded()).as("was not down").isFalse();
    assertThat(health.failed()).isFalse();
    assertThat(health.failed()).isFalse();
    assertThat(health.failed()).as("the third in a row").isTrue();
    assertThat(health.failed()).as("said once").isFalse();
    assertThat(health.isUp()).isFalse();
    health.callSucceeded();
    assertThat(health.checkSucceeded()).isFalse();
    assertThat(health.failed()).isFalse();
    assertThat(health.checkSucceeded()).isFalse();
    assertThat(health.isUp()).isFalse();
    assertThat(health.checkSucceeded()).as("the second in a row").isTrue();
    assertThat(health.isUp()).isTrue();
    assertThat(health.failed()).as("the count began anew").isFalse();
  }

  @Test
  void anEndpointThatFailsItsChecksGetsNothingUntilTheyAreGoodAgain() {
    try (RouterRig rig = new RouterRig(1, 2, RouterHealthTest::quickChecks)) {
      FakeEndpoint sick = rig.decode.get(0);
      sick.on("/health", (request, out) -> out.whole(503, "{}"));
      await("it is down", () -> !isUp(rig, sick));
      for (int i = 0; i < 4; i++) {
        assertThat(rig.post(COMPLETIONS, BODY).statusCode()).isEqualTo(200);
      }
      assertThat(sick.requests(COMPLETIONS)).isEmpty();
      assertThat(rig.get("/health").statusCode()).as("there is another one").isEqualTo(200);
      sick.on("/health", (request, out) -> out.whole(200, "{}"));
      await("it is up", () -> isUp(rig, sick));
      for (int i = 0; i < 4; i++) {
        rig.post(COMPLETIONS, BODY);
      }
      assertThat(sick.requests(COMPLETIONS)).hasSize(2);
    }
  }

  @Test
  void anEndpointThatIsGoneIsBackWhenItIsBack() {
    try (RouterRig rig = new RouterRig(1, 1, RouterHealthTest::quickChecks)) {
      assertThat(rig.post(COMPLETIONS, BODY).statusCode()).isEqualTo(200);
      rig.decode().down();
      await("it is down", () -> !isUp(rig, rig.decode()));
      HttpResponse<String> health = rig.get("/health");
      assertThat(health.statusCode()).isEqualTo(503);
      assertThat(json(health.body()).path("decode").path("up").asInt()).isZero();
      assertThat(json(health.body()).path("prefill").path("up").asInt()).isEqualTo(1);
      HttpResponse<String> refused = rig.post(COMPLETIONS, BODY);
      assertThat(refused.statusCode()).isEqualTo(503);
      assertThat(code(refused)).isEqualTo("no_endpoint");
      assertThat(refused.headers().firstValue("retry-after")).contains("1");
      await("nothing stays pinned", () -> rig.prefill().cancelled().size() == 1);
      rig.decode().up();
      await("it is up", () -> isUp(rig, rig.decode()));
      assertThat(rig.post(COMPLETIONS, BODY).statusCode()).isEqualTo(200);
      assertThat(rig.get("/health").statusCode()).isEqualTo(200);
    }
  }

  /** No check is due for long: calls alone say so. */
  @Test
  void failedCallsMarkAnEndpointDown() {
    try (RouterRig rig = new RouterRig(2, 1, options -> options.choice(ChoicePolicy.ROUND_ROBIN))) {
      FakeEndpoint sick = rig.prefill.get(0);
      sick.on("/prefill", BROKEN);
      for (int i = 0; i < 12; i++) {
        assertThat(rig.post(COMPLETIONS, BODY).statusCode()).isEqualTo(200);
      }
      assertThat(isUp(rig, sick)).isFalse();
      // That a connection which was kept is closed does not count once.
      assertThat(sick.prefilled()).hasSizeBetween(3, 4);
    }
  }

  @Test
  void aPrefillThatHangsWithinItsAnswerIsNotWaitedFor() throws Exception {
    try (RouterRig rig = new RouterRig(2, 1, RouterHealthTest::quickChecks)) {
      Reply half =
          (request, out) -> {
            out.raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"disaggregated_params\": [");
            out.hang();
          };
      rig.prefill.forEach(each -> each.on("/prefill", half));
      CompletableFuture<HttpResponse<String>> answer = rig.postAsync(COMPLETIONS, BODY);
      await(
          "it is there", () -> rig.prefill.stream().anyMatch(each -> !each.prefilled().isEmpty()));
      FakeEndpoint hung = rig.prefill.get(rig.prefill.get(0).prefilled().isEmpty() ? 1 : 0);
      FakeEndpoint other = rig.prefill.get(hung == rig.prefill.get(0) ? 1 : 0);
      other.on("/prefill", (request, out) -> out.whole(200, other.handover(request)));
      hung.on("/health", (request, out) -> out.hang());
      assertThat(answer.get(20, TimeUnit.SECONDS).statusCode()).isEqualTo(200);
      assertThat(other.prefilled()).hasSize(1);
    }
  }

  @Test
  void aHungEndpointIsNotWaitedFor() throws Exception {
    try (RouterRig rig = new RouterRig(1, 2, RouterHealthTest::quickChecks)) {
      for (FakeEndpoint each : rig.decode) {
        each.on(COMPLETIONS, (request, out) -> out.hang());
      }
      CompletableFuture<HttpResponse<String>> answer = rig.postAsync(COMPLETIONS, BODY);
      await(
          "it is there",
          () -> rig.decode.stream().anyMatch(each -> !each.requests(COMPLETIONS).isEmpty()));
      FakeEndpoint hung =
          rig.decode.get(rig.decode.get(0).requests(COMPLETIONS).size() == 1 ? 0 : 1);
      FakeEndpoint other = rig.decode.get(hung == rig.decode.get(0) ? 1 : 0);
      other.on(COMPLETIONS, FakeEndpoint::complete);
      hung.on("/health", (request, out) -> out.hang());
      assertThat(answer.get(20, TimeUnit.SECONDS).statusCode()).isEqualTo(200);
      assertThat(other.requests(COMPLETIONS)).hasSize(1);
      assertThat(isUp(rig, hung)).isFalse();
      await("the first try's prompt is freed", () -> rig.prefill().cancelled().size() == 1);
    }
  }

  /** What is streaming may be well: its own silence decides. */
  @Test
  void aRunningStreamIsNotEndedByFailedChecks() throws Exception {
    try (RouterRig rig = new RouterRig(1, 1, RouterHealthTest::quickChecks)) {
      CompletableFuture<Void> goOn = new CompletableFuture<>();
      rig.decode()
          .on(
              COMPLETIONS,
              (request, out) -> {
                out.eventsHead();
                out.chunk("data: 1\n\n");
                goOn.get(20, TimeUnit.SECONDS);
                out.chunk("data: [DONE]\n\n");
                out.endChunks();
              });
      try (Socket client = rig.open(COMPLETIONS, STREAM)) {
        readUntil(client, "data: 1");
        rig.decode().on("/health", (request, out) -> out.whole(500, "{}"));
        await("it is down", () -> !isUp(rig, rig.decode()));
        goOn.complete(null);
        readUntil(client, "data: [DONE]");
      }
    }
  }
}
