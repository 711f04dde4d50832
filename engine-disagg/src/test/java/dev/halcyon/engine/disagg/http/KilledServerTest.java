package dev.halcyon.engine.disagg.http;

import static dev.halcyon.engine.disagg.Waiting.await;
import static dev.halcyon.engine.disagg.http.SplitServers.COMPLETIONS;
import static dev.halcyon.engine.disagg.http.SplitServers.SPLIT;
import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.disagg.Answers;
import dev.halcyon.engine.disagg.Ends;
import dev.halcyon.engine.disagg.FollowedTransport;
import dev.halcyon.engine.disagg.Leaks;
import dev.halcyon.engine.disagg.transfer.NetworkTransport;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * A server's process that is killed while a prompt is computed at one server and fetched by the
 * other: the one that is left tells its client, and has nothing left of the request.
 */
@Timeout(180)
class KilledServerTest {

  private static final NetworkTransport KIND = NetworkTransport.TCP;
  private static final String BODY =
      "{\"prompt\": "
          + new Random(9).ints(40, 1, TinyCheckpoint.VOCAB).boxed().toList()
          + ", \"max_tokens\": 6, \"temperature\": 1, \"seed\": 2, \"ignore_eos\": true, "
          + HttpSplitEqualityTest.ALL
          + "}";

  private final Leaks before = Leaks.since();
  private final FollowedTransport followed = new FollowedTransport(Ends.listening(KIND));
  @TempDir private Path directory;
  private Path model;

  @BeforeEach
  void write() {
    model = TinyCheckpoint.write(directory);
  }

  @Test
  void aPrefillServer() throws Exception {
    try (ServerProcess prefill = ServerProcess.standingPrefill(KIND, model);
        SplitServers servers = SplitServers.of(model, followed.ends(), ServerProcess::engine);
        TestServer decode = prefill.decodeServer(servers.decode.engine)) {
      CompletableFuture<HttpResponse<String>> fetching = posted(decode, BODY, prefill);
      prefill.awaitStanding();
      await("it has received", followed::hasWritten);
      await("it goes on receiving", () -> servers.decode.engine.metrics().receivingPrompts() == 1);
      // One whose prompt has not had its turn.
      CompletableFuture<HttpResponse<String>> waiting =
          posted(decode, Answers.streamed(BODY), prefill);
      prefill.kill();
      for (HttpResponse<String> failed : List.of(fetching.join(), waiting.join())) {
        assertThat(failed.body()).containsAnyOf("kv_transfer_peer_lost", "prefill_unavailable");
      }
      assertThat(fetching.join().statusCode()).isIn(502, 503);
      requireGood(servers);
    }
    before.awaitNoThreads();
    before.awaitNoSockets();
  }

  private static CompletableFuture<HttpResponse<String>> posted(
      TestServer decode, String body, ServerProcess prefill) {
    String id = "r-" + body.length();
    String asked =
        Answers.with(body, SPLIT, SplitServers.generationFirst(id, prefill.url().toString()));
    return CompletableFuture.supplyAsync(
        () -> decode.post(COMPLETIONS, asked), task -> new Thread(task).start());
  }

  @Test
  void aDecodeServer() throws Exception {
    CountDownLatch standing = new CountDownLatch(1);
    CountDownLatch gate = new CountDownLatch(1);
    followed.standOnceRead(standing::countDown, gate);
    try (SplitServers servers = SplitServers.of(model, followed.ends(), ServerProcess::engine);
        ServerProcess decode =
            ServerProcess.quickDecode(KIND, model, servers.prefill.service.url())) {
      CompletableFuture<HttpResponse<String>> answer =
          decode.post(COMPLETIONS, servers.generationFirst(BODY));
      standing.await();
      decode.kill();
      assertThat(answer.handle((response, failure) -> failure).join()).isNotNull();
      await("the loss is known", () -> followed.events.contains("source PEER_LOST"));
      gate.countDown();
      requireGood(servers);
    }
    before.awaitNoThreads();
    before.awaitNoSockets();
  }

  private static void requireGood(SplitServers servers) {
    servers.assertClean();
    Answers.requireSameInTurn(
        servers.whole::good, servers.styles(), COMPLETIONS, List.of(BODY), "after");
    servers.assertClean();
  }
}
