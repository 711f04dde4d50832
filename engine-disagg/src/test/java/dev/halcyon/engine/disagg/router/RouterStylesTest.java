package dev.halcyon.engine.disagg.router;

import static dev.halcyon.engine.disagg.TestJson.json;
import static dev.halcyon.engine.disagg.Waiting.await;
import static dev.halcyon.engine.disagg.router.RouterRig.BODY;
import static dev.halcyon.engine.disagg.router.RouterRig.COMPLETIONS;
import static dev.halcyon.engine.disagg.router.RouterRig.STREAM;
import static dev.halcyon.engine.disagg.router.RouterRig.code;
import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.disagg.router.FakeEndpoint.Request;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.HashSet;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** What goes to endpoints, what comes back, and what a router answers itself. */
class RouterStylesTest {

  private static final String CHAT = "/v1/chat/completions";

  private static RouterRig rig(ScheduleStyle style) {
    return new RouterRig(1, 1, options -> options.scheduleStyle(style));
  }

  @Test
  void contextFirstHandsThePromptOnAsItCame() {
    try (RouterRig rig = rig(ScheduleStyle.CONTEXT_FIRST)) {
      String body = "{ \"prompt\": \"Once \\u00e9é\", \"seed\": 1e0, \"x\": 1.10 } \n";
      String kept = "{ \"prompt\": \"Once \\u00e9é\", \"seed\": 1e0, \"x\": 1.10 ";
      assertThat(rig.post(COMPLETIONS, body).body()).isEqualTo("{\"text\": \"whole \\u00e9 é\"}");
      Request prompt = rig.prefill().requests("/prefill").get(0);
      String id = prompt.params().path("request_id").asText();
      assertThat(prompt.body())
          .isEqualTo(
              kept
                  + ",\"disaggregated_params\":{\"request_type\":\"context_only\",\"request_id\":\""
                  + id
                  + "\"}}");
      assertThat(prompt.headers()).containsEntry("content-type", "application/json");
      String answer = rig.prefill().handover(prompt);
      String handover = answer.substring("{\"disaggregated_params\": ".length());
      assertThat(rig.decode().requests(COMPLETIONS).get(0).body())
          .isEqualTo(kept + ",\"disaggregated_params\":" + handover);
      assertThat(rig.prefill().cancelled()).isEmpty();
      rig.awaitIdle();
    }
  }

  /** Large ones are looked through by another thread. */
  @Test
  void aLargeHandoverIsPassedOnToTheByte() {
    try (RouterRig rig = rig(ScheduleStyle.CONTEXT_FIRST)) {
      String handover = "[{\"logits\": \"" + "AAAA".repeat(1 << 20) + "\"}]";
      rig.prefill()
          .on(
              "/prefill",
              (request, out) -> out.whole(200, "{\"disaggregated_params\":" + handover + "}"));
      assertThat(rig.post(COMPLETIONS, BODY).statusCode()).isEqualTo(200);
      assertThat(rig.decode().requests(COMPLETIONS).get(0).body())
          .isEqualTo("{\"prompt\": \"Once\",\"disaggregated_params\":" + handover + "}");
      rig.prefill()
          .on(
              "/prefill",
              (request, out) -> out.whole(200, "{\"disaggregated_params\":" + handover),
              (request, out) -> out.whole(200, rig.prefill().handover(request)));
      assertThat(rig.post(COMPLETIONS, BODY).statusCode()).as("after a broken one").isEqualTo(200);
      assertThat(rig.prefill().prefilled()).hasSize(3);
      rig.awaitIdle();
    }
  }

  @Test
  void generationFirstNamesThePrefillEndpoint() {
    try (RouterRig rig = rig(ScheduleStyle.GENERATION_FIRST)) {
      assertThat(rig.post(CHAT, "{\"messages\": []}").statusCode()).isEqualTo(200);
      Request request = rig.decode().requests(CHAT).get(0);
      String id = request.params().path("request_id").asText();
      assertThat(request.body())
          .isEqualTo(
              "{\"messages\": [],\"disaggregated_params\":{\"request_type\":\"generation_only\","
                  + "\"schedule_style\":\"generation_first\",\"request_id\":\""
                  + id
                  + "\",\"prefill\":\""
                  + rig.prefill().url()
                  + "\"}}");
      assertThat(rig.prefill().requests("/prefill")).isEmpty();
      rig.awaitIdle();
    }
  }

  @ParameterizedTest
  @EnumSource(ScheduleStyle.class)
  void aStreamIsPassedOnAsItComes(ScheduleStyle style) {
    try (RouterRig rig = rig(style)) {
      HttpResponse<String> response = rig.post(COMPLETIONS, STREAM);
      assertThat(response.body())
          .isEqualTo("data: {\"a\":1}\n\ndata: {\"b\":2}\n\ndata: [DONE]\n\n");
      assertThat(response.headers().firstValue("content-type"))
          .contains("text/event-stream; charset=utf-8");
      assertThat(response.headers().firstValue("cache-control")).contains("no-cache");
      rig.awaitIdle();
      assertThat(rig.prefill().cancelled()).isEmpty();
    }
  }

  /** Each is 16 random bytes, and a retry has another one. */
  @Test
  void idsCanNotBeGuessed() {
    try (RouterRig rig = rig(ScheduleStyle.CONTEXT_FIRST)) {
      rig.decode().on(COMPLETIONS, (request, out) -> out.whole(503, "{}"), FakeEndpoint::complete);
      for (int i = 0; i < 20; i++) {
        rig.post(COMPLETIONS, BODY);
      }
      Set<String> ids = new HashSet<>(rig.prefill().prefilled());
      assertThat(ids).hasSize(21).allMatch(id -> id.matches("[0-9a-f]{32}"));
    }
  }

  /** As soon as a request has an error of its own, there is nothing to try again. */
  @ParameterizedTest
  @CsvSource({"400", "401", "404", "409", "413", "500", "504"})
  void errorsOfARequestArePassedOnWithoutRetry(int status) {
    String error = "{\"error\": {\"message\": \"no\", \"code\": \"c\"}}";
    try (RouterRig rig = rig(ScheduleStyle.CONTEXT_FIRST)) {
      rig.prefill().on("/prefill", (request, out) -> out.whole(status, error));
      HttpResponse<String> byPrefill = rig.post(COMPLETIONS, BODY);
      assertThat(byPrefill.statusCode()).isEqualTo(status);
      assertThat(byPrefill.body()).isEqualTo(error);
      assertThat(rig.prefill().prefilled()).hasSize(1);
      assertThat(rig.prefill().cancelled()).isEmpty();
    }
    for (ScheduleStyle style : ScheduleStyle.values()) {
      try (RouterRig rig = rig(style)) {
        rig.decode().on(COMPLETIONS, (request, out) -> out.whole(status, error));
        HttpResponse<String> byDecode = rig.post(COMPLETIONS, BODY);
        assertThat(byDecode.statusCode()).isEqualTo(status);
        assertThat(byDecode.body()).isEqualTo(error);
        Request only = rig.decode().requests(COMPLETIONS).get(0);
        assertThat(rig.decode().requests(COMPLETIONS)).hasSize(1);
        await("it is freed", () -> !rig.prefill().cancelled().isEmpty());
        assertThat(rig.prefill().cancelled())
            .containsExactly(only.params().path("request_id").asText());
      }
    }
  }

  @Test
  void whatCanNotBeRoutedIsRefusedHere() {
    try (RouterRig rig = rig(ScheduleStyle.CONTEXT_FIRST)) {
      assertRefused(rig, COMPLETIONS, "{\"prompt\": \"a\"", null);
      assertRefused(rig, COMPLETIONS, "[]", null);
      assertRefused(rig, COMPLETIONS, "{\"prompt\": \"a\"} {}", null);
      assertRefused(rig, COMPLETIONS, "{\"prompt\": \"a\", \"prompt\": \"b\"}", null);
      assertRefused(rig, COMPLETIONS, "{}", "prompt");
      assertRefused(rig, COMPLETIONS, "{\"prompt\": null}", "prompt");
      assertRefused(rig, COMPLETIONS, "{\"prompt\": \"a\", \"messages\": []}", "messages");
      assertRefused(rig, CHAT, "{\"prompt\": \"a\"}", "messages");
      for (String smuggled : new String[] {"null", "{}", "{\"prefill\": \"http://10.0.0.1\"}"}) {
        assertRefused(
            rig,
            COMPLETIONS,
            "{\"prompt\": \"a\", \"disaggregated_params\": " + smuggled + "}",
            "disaggregated_params");
      }
      assertThat(rig.get("/nothing").statusCode()).isEqualTo(404);
      assertThat(rig.post("/prefill", BODY).statusCode()).isEqualTo(404);
      assertThat(rig.get(COMPLETIONS).statusCode()).isEqualTo(405);
      assertThat(rig.prefill().requests("/prefill")).isEmpty();
      assertThat(rig.decode().requests(COMPLETIONS)).isEmpty();
    }
  }

  private static void assertRefused(RouterRig rig, String path, String body, String param) {
    HttpResponse<String> response = rig.post(path, body);
    assertThat(response.statusCode()).as(body).isEqualTo(400);
    assertThat(json(response.body()).path("error").path("type").asText())
        .isEqualTo("invalid_request_error");
    assertThat(json(response.body()).path("error").path("param").asText(null)).isEqualTo(param);
  }

  @Test
  void bodiesAreBounded() {
    try (RouterRig rig =
        new RouterRig(1, 1, RouterRig.server().maxBodyBytes(1000), o -> o.maxHandoverBytes(2000))) {
      String large = "{\"prompt\": \"" + "a".repeat(1000) + "\"}";
      assertThat(rig.post(COMPLETIONS, large).statusCode()).isEqualTo(413);
      String handover = "{\"disaggregated_params\": {\"x\": \"" + "a".repeat(2000) + "\"}}";
      rig.prefill().on("/prefill", (request, out) -> out.whole(200, handover));
      HttpResponse<String> response = rig.post(COMPLETIONS, BODY);
      assertThat(response.statusCode()).isEqualTo(502);
      assertThat(code(response)).isEqualTo("answer_too_large");
      assertThat(rig.decode().requests(COMPLETIONS)).isEmpty();
      assertThat(rig.prefill().prefilled()).as("the next would not be smaller").hasSize(1);
      await("it is freed", () -> !rig.prefill().cancelled().isEmpty());
      assertThat(rig.metric("halcyon_router_endpoint_up")).isEqualTo(1);
    }
  }

  @Test
  void modelsAreThoseOfADecodeEndpoint() {
    try (RouterRig rig = new RouterRig(1, 2, options -> options)) {
      String list = "{\"object\":\"list\",\"data\":[]}";
      assertThat(rig.get("/v1/models").body()).isEqualTo(list);
      for (FakeEndpoint each : rig.decode) {
        each.on("/v1/models/a%2Fb", (request, out) -> out.whole(200, "{\"id\": \"a/b\"}"));
      }
      assertThat(rig.get("/v1/models/a%2Fb").body()).isEqualTo("{\"id\": \"a/b\"}");
      assertThat(rig.get("/v1/models/other").statusCode()).isEqualTo(404);
      rig.decode.get(0).down();
      for (int i = 0; i < 3; i++) {
        assertThat(rig.get("/v1/models").body()).isEqualTo(list);
      }
      rig.decode.get(1).down();
      assertThat(rig.get("/v1/models").statusCode()).isEqualTo(503);
    }
  }

  @Test
  void keysAreTheRoutersOwnAndTheEndpointsOwn() {
    try (RouterRig rig =
        new RouterRig(
            1, 1, RouterRig.server().apiKey("front"), options -> options.endpointKey("back"))) {
      assertThat(rig.post(COMPLETIONS, BODY).statusCode()).isEqualTo(401);
      HttpRequest request =
          HttpRequest.newBuilder(rig.request(COMPLETIONS, BODY), (name, value) -> true)
              .header("authorization", "Bearer front")
              .build();
      assertThat(rig.send(request).statusCode()).isEqualTo(200);
      assertThat(rig.prefill().requests("/prefill").get(0).headers())
          .containsEntry("authorization", "Bearer back");
      assertThat(rig.decode().requests(COMPLETIONS).get(0).headers())
          .containsEntry("authorization", "Bearer back");
    }
  }

  @Test
  void metricsNameEndpointsAndNoPrompts() {
    try (RouterRig rig = rig(ScheduleStyle.CONTEXT_FIRST)) {
      rig.post(COMPLETIONS, "{\"prompt\": \"a secret\"}");
      String metrics = rig.get("/metrics").body();
      assertThat(metrics)
          .contains(
              "halcyon_router_endpoint_up{endpoint=\""
                  + rig.decode().url()
                  + "\",role=\"decode\"} 1.0")
          .contains("halcyon_router_prefill_seconds_count 1")
          .contains("halcyon_router_first_byte_seconds_count 1")
          .contains(
              "halcyon_http_requests_seconds_count{path=\"/v1/completions\",status=\"200\"} 1")
          .doesNotContain("secret");
    }
  }
}
