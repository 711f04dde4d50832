package dev.halcyon.engine.disagg.router;

import static dev.halcyon.engine.disagg.RawHttp.readUntil;
import static dev.halcyon.engine.disagg.Waiting.await;
import static dev.halcyon.engine.disagg.router.RouterRig.BODY;
import static dev.halcyon.engine.disagg.router.RouterRig.COMPLETIONS;
import static dev.halcyon.engine.disagg.router.RouterRig.STREAM;
import static dev.halcyon.engine.disagg.router.RouterRig.code;
import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.ScheduleStyle;
import java.net.Socket;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** A client that goes away, or time that runs out, ends a request wherever it is. */
class RouterCancelTest {

  private static void assertAllFreed(RouterRig rig, List<String> ids) {
    await("all is freed", () -> rig.prefill().cancelled().size() >= ids.size());
    assertThat(rig.prefill().cancelled()).containsExactlyInAnyOrderElementsOf(ids);
    rig.awaitIdle();
  }

  @Test
  void whileThePromptIsComputed() throws Exception {
    try (RouterRig rig = new RouterRig(1, 1, options -> options)) {
      rig.prefill().on("/prefill", (request, out) -> out.hang());
      try (Socket client = rig.open(COMPLETIONS, BODY)) {
        await("it is there", () -> rig.prefill().prefilled().size() == 1);
      }
      await("the endpoint hears of it", () -> rig.prefill().connections() <= 1);
      assertAllFreed(rig, rig.prefill().prefilled());
      assertThat(rig.decode().requests(COMPLETIONS)).isEmpty();
    }
  }

  @ParameterizedTest
  @EnumSource(ScheduleStyle.class)
  void whileNothingIsAnsweredYet(ScheduleStyle style) throws Exception {
    try (RouterRig rig = new RouterRig(1, 1, options -> options.scheduleStyle(style))) {
      rig.decode().on(COMPLETIONS, (request, out) -> out.hang());
      try (Socket client = rig.open(COMPLETIONS, BODY)) {
        await("it is there", () -> rig.decode().requests(COMPLETIONS).size() == 1);
      }
      String id = rig.decode().requests(COMPLETIONS).get(0).params().path("request_id").asText();
      assertAllFreed(rig, List.of(id));
      await("the endpoint hears of it", () -> rig.decode().connections() <= 1);
    }
  }

  @ParameterizedTest
  @EnumSource(ScheduleStyle.class)
  void withinAStream(ScheduleStyle style) throws Exception {
    try (RouterRig rig = new RouterRig(1, 1, options -> options.scheduleStyle(style))) {
      rig.decode()
          .on(
              COMPLETIONS,
              (request, out) -> {
                out.eventsHead();
                while (true) {
                  out.chunk("data: more\n\n");
                  Thread.sleep(2);
                }
              });
      try (Socket client = rig.open(COMPLETIONS, STREAM)) {
        readUntil(client, "data: more");
      }
      await("the endpoint hears of it", () -> rig.decode().gone().contains(COMPLETIONS));
      String id = rig.decode().requests(COMPLETIONS).get(0).params().path("request_id").asText();
      assertAllFreed(rig, List.of(id));
      assertThat(rig.metric("halcyon_router_broken_total")).as("nobody's fault").isZero();
    }
  }

  @Test
  void whileItWaitsForItsTurn() throws Exception {
    try (RouterRig rig = new RouterRig(1, 1, options -> options.maxInFlight(1))) {
      rig.prefill().on("/prefill", (request, out) -> out.hang());
      try (Socket running = rig.open(COMPLETIONS, BODY)) {
        await("it is there", () -> rig.prefill().prefilled().size() == 1);
        try (Socket waiting = rig.open(COMPLETIONS, BODY)) {
          await("it waits", () -> rig.metric("halcyon_router_waiting") == 1);
        }
        await("it does not wait any more", () -> rig.metric("halcyon_router_waiting") == 0);
      }
      assertAllFreed(rig, rig.prefill().prefilled());
      assertThat(rig.prefill().prefilled()).hasSize(1);
    }
  }

  @Test
  void betweenTwoTries() throws Exception {
    try (RouterRig rig =
        new RouterRig(1, 1, options -> options.retryDelay(Duration.ofMillis(300)))) {
      rig.decode().on(COMPLETIONS, (request, out) -> out.whole(503, "{}"));
      try (Socket client = rig.open(COMPLETIONS, BODY)) {
        await("the first is freed", () -> rig.prefill().cancelled().size() == 1);
      }
      rig.awaitIdle();
      Thread.sleep(400);
      assertThat(rig.prefill().prefilled()).hasSize(1);
    }
  }

  /** The prompt may not have been fetched by then. */
  @Test
  void afterAStreamThatEndsWithAnError() {
    try (RouterRig rig = new RouterRig(1, 1, options -> options)) {
      rig.decode()
          .on(
              COMPLETIONS,
              (request, out) -> {
                out.eventsHead();
                out.chunk(": still here\n\n");
                out.chunk("data: {\"error\": {}}\n\n");
                out.endChunks();
              },
              (request, out) -> {
                out.eventsHead();
                out.chunk("data: {}\n\ndata: [DO");
                out.chunk("NE]\n");
                out.chunk("\n");
                out.endChunks();
              });
      assertThat(rig.post(COMPLETIONS, STREAM).body()).contains("error");
      assertAllFreed(rig, rig.prefill().prefilled());
      assertThat(rig.post(COMPLETIONS, STREAM).body()).endsWith("data: {}\n\ndata: [DONE]\n\n");
      rig.awaitIdle();
      assertThat(rig.prefill().cancelled()).as("the first").hasSize(1);
    }
  }

  /** The endpoint's own timeout frees what it can't be told of; telling is tried three times. */
  @Test
  void freeingIsTriedAgain() throws Exception {
    try (RouterRig rig = new RouterRig(1, 1, options -> options)) {
      rig.prefill()
          .on(
              "/prefill/cancel",
              (request, out) -> out.breakOff(),
              (request, out) -> out.whole(500, "{}"),
              (request, out) -> out.whole(200, "{}"));
      rig.decode().on(COMPLETIONS, (request, out) -> out.whole(400, "{}"));
      assertThat(rig.post(COMPLETIONS, BODY).statusCode()).isEqualTo(400);
      await("it is told", () -> rig.metric("halcyon_router_cancels_total{told=\"true\"") == 1);
      String id = rig.prefill().prefilled().get(0);
      assertThat(rig.prefill().cancelled()).containsExactly(id, id, id);
      assertThat(rig.metric("halcyon_router_cancels_total{told=\"false\"")).isZero();
    }
  }

  @ParameterizedTest
  @EnumSource(ScheduleStyle.class)
  void whenTimeIsOver(ScheduleStyle style) {
    try (RouterRig rig =
        new RouterRig(
            1, 1, options -> options.scheduleStyle(style).requestTimeout(Duration.ofMillis(200)))) {
      rig.decode()
          .on(
              COMPLETIONS,
              (request, out) -> out.hang(),
              (request, out) -> {
                out.eventsHead();
                out.chunk("data: 1\n\n");
                out.hang();
              });
      HttpResponse<String> whole = rig.post(COMPLETIONS, BODY);
      assertThat(whole.statusCode()).isEqualTo(504);
      assertThat(code(whole)).isEqualTo("timeout");
      HttpResponse<String> stream = rig.post(COMPLETIONS, STREAM);
      assertThat(stream.statusCode()).isEqualTo(200);
      assertThat(stream.body()).startsWith("data: 1\n\ndata: {\"error\":").contains("\"timeout\"");
      List<String> ids =
          rig.decode().requests(COMPLETIONS).stream()
              .map(request -> request.params().path("request_id").asText())
              .toList();
      assertThat(ids).hasSize(2);
      assertAllFreed(rig, ids);
    }
  }
}
