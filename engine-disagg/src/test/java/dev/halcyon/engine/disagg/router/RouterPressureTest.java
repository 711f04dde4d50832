package dev.halcyon.engine.disagg.router;

import static dev.halcyon.engine.disagg.RawHttp.readUntil;
import static dev.halcyon.engine.disagg.Waiting.await;
import static dev.halcyon.engine.disagg.router.RouterRig.BODY;
import static dev.halcyon.engine.disagg.router.RouterRig.COMPLETIONS;
import static dev.halcyon.engine.disagg.router.RouterRig.STREAM;
import static dev.halcyon.engine.disagg.router.RouterRig.code;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.disagg.server.ApiException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

/** More than there is room for, and clients that read slowly. */
class RouterPressureTest {

  @Test
  void aBoundedNumberRunsABoundedNumberWaitsAndTheRestIsRefused() throws Exception {
    try (RouterRig rig = new RouterRig(1, 1, options -> options.maxInFlight(2).maxWaiting(3))) {
      Semaphore goOn = new Semaphore(0);
      rig.prefill()
          .on(
              "/prefill",
              (request, out) -> {
                goOn.tryAcquire(20, TimeUnit.SECONDS);
                out.whole(200, rig.prefill().handover(request));
              });
      List<CompletableFuture<HttpResponse<String>>> answers = new ArrayList<>();
      for (int i = 0; i < 5; i++) {
        answers.add(rig.postAsync(COMPLETIONS, "{\"prompt\": \"" + i + "\"}"));
        double now = i + 1;
        await(
            "it is in",
            () ->
                rig.metric("halcyon_router_running") + rig.metric("halcyon_router_waiting") == now);
      }
      assertThat(rig.metric("halcyon_router_running")).isEqualTo(2);
      for (int i = 0; i < 3; i++) {
        HttpResponse<String> refused = rig.post(COMPLETIONS, BODY);
        assertThat(refused.statusCode()).isEqualTo(429);
        assertThat(code(refused)).isEqualTo("queue_full");
        assertThat(refused.headers().firstValue("retry-after")).contains("1");
      }
      assertThat(rig.prefill().prefilled()).hasSize(2);
      // One at a time: two that end together let two others begin together.
      for (int begun = 3; begun <= 5; begun++) {
        goOn.release();
        int now = begun;
        await("the next has begun", () -> rig.prefill().prefilled().size() == now);
      }
      goOn.release(2);
      for (CompletableFuture<HttpResponse<String>> answer : answers) {
        assertThat(answer.get(20, TimeUnit.SECONDS).statusCode()).isEqualTo(200);
      }
      assertThat(
              rig.prefill().requests("/prefill").stream()
                  .map(r -> r.json().path("prompt").asText()))
          .as("first come, first served (the first two run together)")
          .endsWith("2", "3", "4");
      rig.awaitIdle();
    }
  }

  @Test
  void placesAreGivenUpOnceAndInTurn() {
    Admission admission = new Admission(1, 2);
    List<String> started = new ArrayList<>();
    Admission.Ticket a = admission.enter(() -> started.add("a"));
    admission.proceed();
    Admission.Ticket b = admission.enter(() -> started.add("b"));
    Admission.Ticket c = admission.enter(() -> started.add("c"));
    admission.proceed();
    assertThat(started).containsExactly("a");
    assertThatThrownBy(() -> admission.enter(() -> {})).isInstanceOf(ApiException.class);
    b.leave();
    a.leave();
    a.leave();
    assertThat(started).containsExactly("a", "c");
    assertThat(admission.running()).isEqualTo(1);
    c.leave();
    assertThat(admission.running()).isZero();
    assertThat(admission.waiting()).isZero();
  }

  /**
   * The endpoint would send 32 MiB at once; as long as the client reads nothing it can't, because
   * the router reads no further. What the system keeps for the two connections is some MiB.
   */
  @Test
  void aSlowClientHoldsUpItsEndpointAndNotTheRoutersMemory() throws Exception {
    int megabytes = 32;
    String piece = "data: " + "x".repeat((1 << 16) - 8) + "\n\n";
    AtomicLong sent = new AtomicLong();
    try (RouterRig rig = new RouterRig(1, 1, options -> options)) {
      rig.decode()
          .on(
              COMPLETIONS,
              (request, out) -> {
                out.eventsHead();
                for (int i = 0; i < megabytes << 4; i++) {
                  out.chunk(piece);
                  sent.addAndGet(piece.length());
                }
                out.chunk("data: [DONE]\n\n");
                out.endChunks();
              });
      try (Socket slow = new Socket()) {
        slow.setReceiveBufferSize(4096);
        slow.connect(new InetSocketAddress("127.0.0.1", rig.router.port()));
        slow.getOutputStream().write(post(STREAM));
        readUntil(slow, "data: ");
        long before;
        do { // until the endpoint stands still
          before = sent.get();
          Thread.sleep(300);
        } while (sent.get() > before);
        assertThat(before).isLessThan(16L << 20);
        rig.decode().on(COMPLETIONS, FakeEndpoint::complete);
        assertThat(rig.post(COMPLETIONS, BODY).statusCode()).as("others go on").isEqualTo(200);
        long read = skim(slow, (long) megabytes << 20);
        assertThat(read).isGreaterThanOrEqualTo(((long) megabytes << 20) - 6);
      }
      rig.awaitIdle();
      assertThat(rig.prefill().cancelled()).isEmpty();
    }
  }

  private static byte[] post(String body) {
    return ("POST "
            + COMPLETIONS
            + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
            + "Content-Length: "
            + body.length()
            + "\r\n\r\n"
            + body)
        .getBytes(StandardCharsets.UTF_8);
  }

  private static long skim(Socket from, long least) throws Exception {
    InputStream in = from.getInputStream();
    byte[] buffer = new byte[1 << 16];
    long total = 0;
    for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
      total += n;
    }
    return total;
  }

  @Test
  void aClientThatStallsIsCutOffAndItsEndpointHearsOfIt() throws Exception {
    String piece = "data: " + "x".repeat((1 << 16) - 8) + "\n\n";
    try (RouterRig rig =
        new RouterRig(
            1, 1, RouterRig.server().stallTimeout(Duration.ofMillis(300)), options -> options)) {
      rig.decode()
          .on(
              COMPLETIONS,
              (request, out) -> {
                out.eventsHead();
                while (true) {
                  out.chunk(piece);
                }
              });
      try (Socket stalled = rig.open(COMPLETIONS, STREAM)) {
        readUntil(stalled, "data: ");
        await("the endpoint hears of it", () -> rig.decode().gone().contains(COMPLETIONS));
      }
      await("it is freed", () -> rig.prefill().cancelled().size() == 1);
      assertThat(rig.metric("halcyon_http_cut_off_total")).isEqualTo(1);
      rig.awaitIdle();
    }
  }
}
