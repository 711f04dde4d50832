package dev.halcyon.engine.disagg.router;

import static dev.halcyon.engine.disagg.RawHttp.readAll;
import static dev.halcyon.engine.disagg.RawHttp.readUntil;
import static dev.halcyon.engine.disagg.Waiting.await;
import static dev.halcyon.engine.disagg.router.RouterRig.BODY;
import static dev.halcyon.engine.disagg.router.RouterRig.COMPLETIONS;
import static dev.halcyon.engine.disagg.router.RouterRig.STREAM;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.disagg.server.ServerOptions;
import java.net.ConnectException;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** A router that ends, and the one that comes after it. */
class RouterCloseTest {

  private static long threads() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().startsWith("halcyon-http"))
        .filter(Thread::isAlive)
        .count();
  }

  @Test
  void closingLetsWhatRunsEndAndLeavesNoThreadsAndNoSockets() throws Exception {
    long before = threads();
    try (RouterRig rig = new RouterRig(1, 2, options -> options)) {
      CountDownLatch goOn = new CountDownLatch(1);
      rig.decode.forEach(
          each ->
              each.on(
                  COMPLETIONS,
                  (request, out) -> {
                    FakeEndpoint.waitFor(goOn);
                    FakeEndpoint.complete(request, out);
                  }));
      List<CompletableFuture<HttpResponse<String>>> running =
          List.of(rig.postAsync(COMPLETIONS, BODY), rig.postAsync(COMPLETIONS, STREAM));
      await(
          "they run",
          () -> rig.decode.stream().mapToInt(d -> d.requests(COMPLETIONS).size()).sum() == 2);
      int port = rig.router.port();
      Thread closer = new Thread(rig.router::close);
      closer.start();
      await("it does not listen", () -> !listens(port));
      goOn.countDown();
      for (CompletableFuture<HttpResponse<String>> each : running) {
        assertThat(each.get(20, TimeUnit.SECONDS).statusCode()).isEqualTo(200);
      }
      closer.join(10_000);
      assertThat(closer.isAlive()).isFalse();
      assertThat(rig.prefill().cancelled()).isEmpty();
      await("sockets are gone", () -> rig.prefill().connections() == 0);
      await("sockets are gone", () -> rig.decode.stream().allMatch(d -> d.connections() == 0));
      await("threads are gone", () -> threads() <= before);
    }
  }

  private static boolean listens(int port) {
    try (Socket socket = new Socket("127.0.0.1", port)) {
      return socket.isConnected();
    } catch (ConnectException e) {
      return false;
    } catch (java.io.IOException e) {
      return true;
    }
  }

  @Test
  void whatDoesNotEndInTimeIsEndedAndFreed() throws Exception {
    ServerOptions.Builder server = RouterRig.server().drainTimeout(Duration.ofMillis(200));
    try (RouterRig rig = new RouterRig(1, 1, server, options -> options)) {
      rig.decode()
          .on(
              COMPLETIONS,
              (request, out) -> {
                out.eventsHead();
                out.chunk("data: 1\n\n");
                out.hang();
              });
      try (Socket stream = rig.open(COMPLETIONS, STREAM)) {
        readUntil(stream, "data: 1\n\n");
        CompletableFuture<HttpResponse<String>> whole = new CompletableFuture<>();
        rig.prefill().on("/prefill", (request, out) -> out.hang());
        rig.postAsync(COMPLETIONS, BODY).thenAccept(whole::complete);
        await("it runs", () -> rig.prefill().prefilled().size() == 2);
        rig.router.close();
        assertThat(readAll(stream)).contains("shutting_down");
        assertThat(whole.get(20, TimeUnit.SECONDS).statusCode()).isEqualTo(503);
      }
      assertThat(rig.prefill().cancelled())
          .as("told before close() returned")
          .containsExactlyInAnyOrderElementsOf(rig.prefill().prefilled());
      rig.router.close();
    }
  }

  @Test
  void anotherRouterInItsPlaceGoesOn() {
    try (RouterRig rig = new RouterRig(2, 2, options -> options)) {
      int port = rig.router.port();
      assertThat(rig.post(COMPLETIONS, BODY).statusCode()).isEqualTo(200);
      for (int i = 0; i < 3; i++) {
        rig.router.close();
        rig.router = rig.start(RouterRig.server().port(port), options -> options);
        assertThat(rig.router.port()).isEqualTo(port);
        assertThat(rig.post(COMPLETIONS, BODY).statusCode()).isEqualTo(200);
      }
      rig.awaitIdle();
    }
  }

  @Test
  void aPortThatIsTakenIsSaidAndLeavesNothing() throws Exception {
    long before = threads();
    try (RouterRig rig = new RouterRig(1, 1, options -> options)) {
      assertThatThrownBy(
              () -> rig.start(RouterRig.server().port(rig.router.port()), options -> options))
          .isInstanceOf(EngineException.class)
          .hasMessageContaining("" + rig.router.port());
    }
    await("threads are gone", () -> threads() <= before);
  }

  @Test
  void optionsAreChecked() {
    URI url = URI.create("http://10.0.0.1");
    RouterOptions good = RouterOptions.builder().prefill(List.of(url)).decode(List.of(url)).build();
    assertThat(good.prefill()).containsExactly(URI.create("http://10.0.0.1:80"));
    RouterOptions.Builder secret =
        RouterOptions.builder().prefill(List.of(url)).decode(List.of(url)).endpointKey("secret");
    assertThat(secret.build().toString()).doesNotContain("secret");
    assertWrong("prefill", RouterOptions.builder().decode(List.of(url)));
    assertWrong("decode", RouterOptions.builder().prefill(List.of(url)));
    for (String wrong :
        List.of(
            "ftp://10.0.0.1",
            "a.b:80",
            "http:///x",
            "http://10.0.0.1/v1",
            "http://a:b@10.0.0.1",
            "http://10.0.0.1?x",
            "http://10.0.0.1#x")) {
      assertWrong(
          "prefill",
          RouterOptions.builder().decode(List.of(url)).prefill(List.of(URI.create(wrong))));
    }
    assertWrong(
        "decode",
        RouterOptions.builder()
            .prefill(List.of(url))
            .decode(List.of(url, URI.create("http://10.0.0.1:80/"))));
    assertWrong("maxInFlight", secret.maxInFlight(0));
    assertWrong("healthInterval", secret.maxInFlight(1).healthInterval(Duration.ZERO));
    assertWrong(
        "failuresToMarkDown", secret.healthInterval(Duration.ofSeconds(1)).failuresToMarkDown(0));
    assertWrong("endpointKey", secret.failuresToMarkDown(1).endpointKey(" "));
  }

  private static void assertWrong(String name, RouterOptions.Builder builder) {
    assertThatThrownBy(builder::build)
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith(name + " ");
  }
}
