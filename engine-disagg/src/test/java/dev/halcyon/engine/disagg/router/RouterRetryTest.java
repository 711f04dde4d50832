package dev.halcyon.engine.disagg.router;

import static dev.halcyon.engine.disagg.RawHttp.readAll;
import static dev.halcyon.engine.disagg.Waiting.await;
import static dev.halcyon.engine.disagg.router.RouterRig.BODY;
import static dev.halcyon.engine.disagg.router.RouterRig.COMPLETIONS;
import static dev.halcyon.engine.disagg.router.RouterRig.STREAM;
import static dev.halcyon.engine.disagg.router.RouterRig.code;
import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.disagg.router.FakeEndpoint.Reply;
import java.net.Socket;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** A request is tried again exactly where that is safe, and what it left pinned is freed. */
class RouterRetryTest {

  private static final String GOOD = "{\"text\": \"whole \\u00e9 é\"}";
  private static final String BUSY = "{\"error\": {\"code\": \"queue_full\"}}";

  /** A way not to answer, before anything has gone to the client. */
  record Fault(String name, Reply reply) {

    static Fault error(int status, String code) {
      String body = "{\"error\": {\"code\": \"" + code + "\"}}";
      return new Fault(status + " " + code, (request, out) -> out.whole(status, body));
    }

    @Override
    public String toString() {
      return name;
    }
  }

  static Stream<Fault> faults() {
    return Stream.of(
        new Fault("429", (request, out) -> out.whole(429, BUSY, "Retry-After: 7")),
        new Fault("503", (request, out) -> out.whole(503, BUSY, "Retry-After: 7")),
        Fault.error(502, "kv_transfer_peer_lost"),
        Fault.error(504, "kv_transfer_timeout"),
        Fault.error(409, "kv_transfer_unknown"),
        Fault.error(502, "prefill_failed"),
        new Fault("no byte", (request, out) -> out.breakOff()),
        new Fault(
            "half a head",
            (request, out) -> {
              out.raw("HTTP/1.1 200 OK\r\nContent-Ty");
              out.breakOff();
            }),
        new Fault(
            "a head and no body",
            (request, out) -> {
              out.raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
              out.breakOff();
            }),
        new Fault(
            "the head of a stream and no event",
            (request, out) -> {
              out.eventsHead();
              out.breakOff();
            }),
        new Fault(
            "no HTTP",
            (request, out) -> {
              out.raw("SSH-2.0-OpenSSH\r\n\r\n");
              out.breakOff();
            }));
  }

  private static RouterRig rig(ScheduleStyle style, int prefills, int decodes) {
    return new RouterRig(
        prefills,
        decodes,
        options -> options.scheduleStyle(style).choice(ChoicePolicy.ROUND_ROBIN));
  }

  private static List<String> all(
      List<FakeEndpoint> of, Function<FakeEndpoint, List<String>> what) {
    List<String> all = new ArrayList<>();
    of.forEach(each -> all.addAll(what.apply(each)));
    return all;
  }

  private static int calls(List<FakeEndpoint> of, String path) {
    return of.stream().mapToInt(each -> each.requests(path).size()).sum();
  }

  private static boolean isRefusal(Fault fault) {
    return fault.name().equals("429") || fault.name().equals("503");
  }

  @ParameterizedTest
  @MethodSource("faults")
  void aPrefillThatDoesNotAnswerIsReplaced(Fault fault) {
    try (RouterRig rig = rig(ScheduleStyle.CONTEXT_FIRST, 2, 1)) {
      rig.prefill.get(0).on("/prefill", fault.reply());
      for (int i = 0; i < 2; i++) {
        HttpResponse<String> response = rig.post(COMPLETIONS, BODY);
        assertThat(response.statusCode()).isEqualTo(200);
        assertThat(response.body()).isEqualTo(GOOD);
      }
      List<String> failed = rig.prefill.get(0).prefilled();
      assertThat(failed).isNotEmpty();
      // Who refuses has nothing pinned; who breaks off may have.
      List<String> toFree = isRefusal(fault) ? List.of() : failed;
      await("it is freed", () -> rig.prefill.get(0).cancelled().size() >= toFree.size());
      assertThat(rig.prefill.get(0).cancelled()).isEqualTo(toFree);
      assertThat(rig.prefill.get(1).cancelled()).isEmpty();
      assertThat(rig.metric("halcyon_router_retries_total")).isEqualTo(failed.size());
      rig.awaitIdle();
    }
  }

  @ParameterizedTest
  @MethodSource("faults")
  void aDecodeThatDoesNotAnswerIsReplacedAndThePromptComputedAnew(Fault fault) {
    try (RouterRig rig = rig(ScheduleStyle.CONTEXT_FIRST, 1, 2)) {
      rig.decode.get(0).on(COMPLETIONS, fault.reply());
      for (int i = 0; i < 2; i++) {
        assertThat(rig.post(COMPLETIONS, BODY).body()).isEqualTo(GOOD);
      }
      List<String> failed = ids(rig.decode.get(0));
      assertThat(failed).isNotEmpty();
      await("they are freed", () -> rig.prefill().cancelled().size() >= failed.size());
      assertThat(rig.prefill().cancelled()).isEqualTo(failed);
      assertThat(rig.prefill().prefilled()).hasSize(2 + failed.size()).doesNotHaveDuplicates();
      assertThat(ids(rig.decode.get(1))).doesNotContainAnyElementsOf(failed);
      rig.awaitIdle();
    }
  }

  @ParameterizedTest
  @MethodSource("faults")
  void generationFirstIsTriedAgainToo(Fault fault) {
    try (RouterRig rig = rig(ScheduleStyle.GENERATION_FIRST, 1, 2)) {
      rig.decode.get(0).on(COMPLETIONS, fault.reply());
      for (int i = 0; i < 2; i++) {
        assertThat(rig.post(COMPLETIONS, BODY).body()).isEqualTo(GOOD);
      }
      List<String> failed = ids(rig.decode.get(0));
      assertThat(failed).isNotEmpty();
      await("they are freed", () -> rig.prefill().cancelled().size() >= failed.size());
      assertThat(rig.prefill().cancelled()).isEqualTo(failed);
      rig.awaitIdle();
    }
  }

  private static List<String> ids(FakeEndpoint decode) {
    return decode.requests(COMPLETIONS).stream()
        .map(request -> request.params().path("request_id").asText())
        .toList();
  }

  /** Nothing has reached the decode endpoint, so that the prompt is still there to be fetched. */
  @Test
  void aDecodeThatCanNotBeReachedIsReplacedAndThePromptKept() {
    try (RouterRig rig = rig(ScheduleStyle.CONTEXT_FIRST, 1, 2)) {
      rig.decode.get(0).down();
      for (int i = 0; i < 4; i++) {
        assertThat(rig.post(COMPLETIONS, BODY).body()).isEqualTo(GOOD);
      }
      assertThat(rig.prefill().prefilled()).hasSize(4);
      assertThat(rig.prefill().cancelled()).isEmpty();
      assertThat(rig.metric("halcyon_router_retries_total")).isPositive();
      rig.awaitIdle();
    }
  }

  @ParameterizedTest
  @EnumSource(ScheduleStyle.class)
  void triesAreBoundedAndTheLastRefusalIsToldAsItIs(ScheduleStyle style) {
    for (String name : List.of("429", "503")) {
      Reply busy = faults().filter(fault -> fault.name().equals(name)).findFirst().get().reply();
      try (RouterRig rig = rig(style, 1, 2)) {
        rig.decode.forEach(each -> each.on(COMPLETIONS, busy));
        HttpResponse<String> response = rig.post(COMPLETIONS, BODY);
        assertThat(response.statusCode()).isEqualTo(Integer.parseInt(name));
        assertThat(response.body()).isEqualTo(BUSY);
        assertThat(response.headers().firstValue("retry-after")).contains("7");
        assertThat(calls(rig.decode, COMPLETIONS)).as("1 try and 2 more").isEqualTo(3);
        await("all is freed", () -> rig.prefill().cancelled().size() == 3);
        assertThat(rig.prefill().cancelled())
            .containsExactlyInAnyOrderElementsOf(all(rig.decode, RouterRetryTest::ids));
        rig.awaitIdle();
        assertThat(rig.metric("halcyon_router_endpoint_up")).as("busy is not down").isEqualTo(1);
      }
    }
  }

  @Test
  void whoIsNeverReachedOrNeverAnswersIsToldApart() {
    try (RouterRig rig = rig(ScheduleStyle.CONTEXT_FIRST, 1, 1)) {
      rig.decode().on(COMPLETIONS, (request, out) -> out.breakOff());
      HttpResponse<String> broken = rig.post(COMPLETIONS, BODY);
      assertThat(broken.statusCode()).isEqualTo(502);
      assertThat(code(broken)).isEqualTo("endpoint_failed");
    }
    try (RouterRig rig = rig(ScheduleStyle.CONTEXT_FIRST, 1, 1)) {
      rig.prefill().down();
      HttpResponse<String> unreached = rig.post(COMPLETIONS, BODY);
      assertThat(unreached.statusCode()).isEqualTo(503);
      assertThat(code(unreached)).isEqualTo("endpoint_unreachable");
      assertThat(unreached.headers().firstValue("retry-after")).contains("1");
      HttpResponse<String> down = rig.post(COMPLETIONS, BODY);
      assertThat(code(down)).as("3 failures in a row").isEqualTo("no_endpoint");
      rig.awaitIdle();
    }
  }

  @Test
  void noRetryAtAllIfSoConfigured() {
    try (RouterRig rig = new RouterRig(1, 2, options -> options.maxRetries(0))) {
      rig.decode.forEach(each -> each.on(COMPLETIONS, (request, out) -> out.whole(503, BUSY)));
      assertThat(rig.post(COMPLETIONS, BODY).statusCode()).isEqualTo(503);
      assertThat(calls(rig.decode, COMPLETIONS)).isEqualTo(1);
    }
  }

  /** A handover is an object or a list, and the answer is JSON. */
  @Test
  void anAnswerOfPrefillWithoutHandoverIsABrokenOne() {
    for (String wrong : List.of("", "{}", "{\"disaggregated_params\": 3}", "[]", "{\"a\":1")) {
      try (RouterRig rig = rig(ScheduleStyle.CONTEXT_FIRST, 1, 1)) {
        rig.prefill()
            .on(
                "/prefill",
                (request, out) -> out.whole(200, wrong),
                (request, out) -> out.whole(200, rig.prefill().handover(request)));
        assertThat(rig.post(COMPLETIONS, BODY).body()).as(wrong).isEqualTo(GOOD);
        await("it is freed", () -> rig.prefill().cancelled().size() == 1);
        assertThat(rig.prefill().cancelled()).containsExactly(rig.prefill().prefilled().get(0));
      }
    }
  }

  /** From the first byte on there is no other try, whatever happens. */
  @ParameterizedTest
  @EnumSource(ScheduleStyle.class)
  void aStreamThatBreaksOffBetweenEventsEndsWithAnErrorEvent(ScheduleStyle style) throws Exception {
    try (RouterRig rig = rig(style, 1, 2)) {
      Reply breaking =
          (request, out) -> {
            out.eventsHead();
            out.chunk("data: 1\n\n");
            out.breakOff();
          };
      rig.decode.forEach(each -> each.on(COMPLETIONS, breaking));
      HttpResponse<String> response = rig.post(COMPLETIONS, STREAM);
      assertThat(response.statusCode()).isEqualTo(200);
      assertThat(response.body())
          .startsWith("data: 1\n\ndata: {\"error\":{")
          .endsWith("\"code\":\"endpoint_failed\",\"status\":502}}\n\n")
          .doesNotContain("[DONE]");
      assertNeverTriedAgain(rig);
    }
  }

  @ParameterizedTest
  @EnumSource(ScheduleStyle.class)
  void anAnswerThatBreaksOffElsewhereBreaksOffForTheClient(ScheduleStyle style) throws Exception {
    Reply withinAnEvent =
        (request, out) -> {
          out.eventsHead();
          out.chunk("data: {\"a");
          out.breakOff();
        };
    Reply withinAWhole =
        (request, out) -> {
          out.raw(
              "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n");
          out.raw("{\"text\":");
          out.breakOff();
        };
    for (Reply breaking : List.of(withinAnEvent, withinAWhole)) {
      try (RouterRig rig = rig(style, 1, 2)) {
        rig.decode.forEach(each -> each.on(COMPLETIONS, breaking));
        try (Socket client = rig.open(COMPLETIONS, STREAM)) {
          String got = readAll(client);
          assertThat(got).startsWith("HTTP/1.1 200 OK").doesNotContain("error", "\r\n0\r\n");
        }
        assertNeverTriedAgain(rig);
      }
    }
  }

  private static void assertNeverTriedAgain(RouterRig rig) throws Exception {
    await("it is freed", () -> rig.prefill().cancelled().size() == 1);
    Thread.sleep(50); // ten times the pause before a retry
    assertThat(calls(rig.decode, COMPLETIONS)).isEqualTo(1);
    assertThat(rig.metric("halcyon_router_retries_total")).isZero();
    assertThat(rig.metric("halcyon_router_broken_total")).isEqualTo(1);
    rig.awaitIdle();
  }

  /** A sign of life is not a part of the answer: another endpoint may still give it. */
  @ParameterizedTest
  @EnumSource(ScheduleStyle.class)
  void heartbeatsComeBeforeTheAnswerAndDoNotEndTheTries(ScheduleStyle style) {
    try (RouterRig rig =
        new RouterRig(
            1,
            1,
            RouterRig.server().heartbeat(Duration.ofMillis(50)),
            options -> options.scheduleStyle(style))) {
      Reply slow =
          (request, out) -> {
            Thread.sleep(200);
            out.whole(503, BUSY);
          };
      rig.decode().on(COMPLETIONS, slow, FakeEndpoint::complete);
      HttpResponse<String> response = rig.post(COMPLETIONS, STREAM);
      assertThat(response.statusCode()).isEqualTo(200);
      assertThat(response.body())
          .startsWith(": still here\n\n")
          .endsWith("\n\ndata: {\"a\":1}\n\ndata: {\"b\":2}\n\ndata: [DONE]\n\n");
      rig.decode()
          .on(
              COMPLETIONS,
              (request, out) -> {
                Thread.sleep(200);
                out.whole(400, "{\"error\": {\"message\": \"no\", \"code\": \"c\"}}");
              });
      assertThat(rig.post(COMPLETIONS, STREAM).body())
          .startsWith(": still here\n\n")
          .contains("\n\ndata: {\"error\":{\"message\":\"no\",")
          .doesNotContain("[DONE]");
      assertThat(rig.post(COMPLETIONS, BODY).statusCode()).as("not a stream").isEqualTo(400);
      rig.awaitIdle();
    }
  }

  @Test
  void anEndpointThatFallsSilentWithinItsAnswerIsGivenUp() {
    try (RouterRig rig =
        new RouterRig(1, 1, options -> options.silenceTimeout(Duration.ofMillis(150)))) {
      rig.decode()
          .on(
              COMPLETIONS,
              (request, out) -> {
                out.eventsHead();
                for (int i = 0; i < 6; i++) { // each silence is short enough
                  out.chunk("data: " + i + "\n\n");
                  Thread.sleep(50);
                }
                out.hang();
              });
      HttpResponse<String> response = rig.post(COMPLETIONS, STREAM);
      assertThat(response.body())
          .startsWith("data: 0\n\n")
          .contains("data: 5\n\ndata: {\"error\":");
      await("the endpoint hears of it", () -> rig.decode().connections() == 0);
      await("the prompt is freed", () -> rig.prefill().cancelled().size() == 1);
    }
  }

  /** An endpoint that was restarted has closed the connections that were kept. */
  @Test
  void aConnectionThatWasClosedMeanwhileCostsNothing() {
    try (RouterRig rig = new RouterRig(1, 1, options -> options.failuresToMarkDown(1))) {
      for (int i = 0; i < 5; i++) {
        assertThat(rig.post(COMPLETIONS, BODY).body()).isEqualTo(GOOD);
        // Closes when the next request comes, which the router can't know before.
        rig.decode().on(COMPLETIONS, (request, out) -> out.breakOff(), FakeEndpoint::complete);
      }
      assertThat(rig.metric("halcyon_router_endpoint_up")).isEqualTo(1);
      rig.decode().on(COMPLETIONS, FakeEndpoint::complete);
      rig.decode().down();
      rig.decode().up();
      assertThat(rig.post(COMPLETIONS, BODY).body()).isEqualTo(GOOD);
    }
  }
}
