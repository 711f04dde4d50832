package dev.halcyon.engine.disagg.router;

import static dev.halcyon.engine.disagg.RawHttp.readAll;
import static dev.halcyon.engine.disagg.RawHttp.readUntil;
import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.disagg.RawHttp;
import dev.halcyon.engine.disagg.server.ServerOptions;
import java.net.Socket;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Routers come and go before servers that stay. */
class RouterRestartTest {

  private static final String COMPLETIONS = "/v1/completions";
  private static final String SHORT = "{\"prompt\": \"hello\", \"max_tokens\": 3}";
  private static final String LONG =
      "{\"prompt\": \"hello\", \"max_tokens\": 200, \"ignore_eos\": true, \"stream\": true}";

  private Path model;

  @BeforeEach
  void write(@TempDir Path directory) {
    model = TinyCheckpoint.write(directory);
  }

  @ParameterizedTest
  @EnumSource(ScheduleStyle.class)
  void aRouterThatIsClosedAmidStreamsLeavesNothingAndTheNextGoesOn(ScheduleStyle style)
      throws Exception {
    ServerOptions.Builder server = RouterRig.server().drainTimeout(Duration.ZERO);
    try (RealCluster cluster =
        new RealCluster(model, engine -> engine, router -> router.server(server.build()))) {
      DisaggService first = cluster.routers.get(style);
      int port = first.port();
      List<Socket> streams = new ArrayList<>();
      for (int i = 0; i < 40; i++) {
        Socket socket = new Socket("127.0.0.1", port);
        socket.setSoTimeout(20_000);
        RawHttp.write(socket, RawHttp.post(COMPLETIONS, LONG));
        streams.add(socket);
      }
      readUntil(streams.get(0), "data: ");
      first.close();
      for (Socket stream : streams) {
        assertThat(readAll(stream))
            .satisfiesAnyOf(
                text -> assertThat(text).contains("shutting_down"),
                text -> assertThat(text).as("cut off within an event").doesNotContain("\r\n0\r\n"),
                text -> assertThat(text).as("ended before").contains("[DONE]"));
        stream.close();
      }
      cluster.assertClean();
      RouterOptions again = cluster.options(style, RouterRig.server().port(port));
      try (DisaggService second = DisaggService.start(again)) {
        HttpResponse<String> answer = cluster.post(second.url(), COMPLETIONS, SHORT);
        assertThat(answer.statusCode()).as(answer.body()).isEqualTo(200);
      }
      cluster.assertClean();
    }
  }

  /** What a router that was killed leaves is a prompt that nobody fetches. */
  @Test
  void whatAKilledRouterLeavesPinnedIsFreeAfterItsTimeout() {
    try (RealCluster cluster =
        new RealCluster(
            model, engine -> engine.kvTransferTimeout(Duration.ofSeconds(1)), router -> router)) {
      long start = System.nanoTime();
      HttpResponse<String> prompted =
          cluster.postWithKey(
              cluster.prefillUrl(),
              "/prefill",
              "{\"prompt\": \"hello\", \"disaggregated_params\": {\"request_type\":"
                  + " \"context_only\", \"request_id\": \"left\"}}");
      assertThat(prompted.statusCode()).as(prompted.body()).isEqualTo(200);
      assertThat(cluster.pinned()).isEqualTo(1);
      DisaggService next = cluster.routers.get(ScheduleStyle.CONTEXT_FIRST);
      assertThat(cluster.post(next.url(), COMPLETIONS, SHORT).statusCode()).isEqualTo(200);
      cluster.assertClean();
      assertThat(System.nanoTime() - start).isLessThan(Duration.ofSeconds(10).toNanos());
    }
  }
}
