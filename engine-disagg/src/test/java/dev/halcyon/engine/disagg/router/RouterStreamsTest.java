package dev.halcyon.engine.disagg.router;

import static dev.halcyon.engine.disagg.Waiting.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.TinyCheckpoint;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** A thousand streams at once, of which half break off somewhere, leave nothing behind. */
class RouterStreamsTest {

  private static final int STREAMS = 1000;
  private static final String DONE = "data: [DONE]\n\n";

  /** One client: reads all, or leaves after some time or some bytes. */
  private static final class Client {

    final SocketChannel channel;
    final StringBuilder got = new StringBuilder();
    final int leaveAfterBytes;
    final long leaveAtNanos;

    Client(SocketChannel channel, Random random, long start) {
      this.channel = channel;
      boolean leaves = random.nextBoolean();
      boolean byTime = random.nextBoolean();
      leaveAfterBytes = leaves && !byTime ? 1 + random.nextInt(1500) : Integer.MAX_VALUE;
      leaveAtNanos =
          leaves && byTime
              ? start + Duration.ofMillis(random.nextInt(4000)).toNanos()
              : Long.MAX_VALUE;
    }

    boolean stays() {
      return leaveAfterBytes == Integer.MAX_VALUE && leaveAtNanos == Long.MAX_VALUE;
    }

    /** The head, and the body without the borders of its chunks, which may lie anywhere. */
    String answer() {
      int body = got.indexOf("\r\n\r\n") + 4;
      StringBuilder answer = new StringBuilder(got.substring(0, body));
      for (int at = body; at < got.length(); ) {
        int line = got.indexOf("\r\n", at);
        int size = Integer.parseInt(got.substring(at, line), 16);
        answer.append(got, line + 2, line + 2 + size);
        at = line + 2 + size + 2;
      }
      return answer.toString();
    }
  }

  @ParameterizedTest
  @EnumSource(ScheduleStyle.class)
  void aThousandStreamsOfWhichHalfBreakOffLeaveNothing(ScheduleStyle style, @TempDir Path directory)
      throws Exception {
    Path model = TinyCheckpoint.write(directory);
    try (RealCluster cluster =
        new RealCluster(
            model,
            engine -> engine.maxBatchSize(64).kvCacheTokens(1 << 14),
            router -> router.retryDelay(Duration.ofMillis(20)).maxRetries(5))) {
      DisaggService router = cluster.routers.get(style);
      List<Client> clients = run(router.port());
      List<Client> stayed = clients.stream().filter(Client::stays).toList();
      assertThat(stayed.size()).isBetween(STREAMS / 3, 2 * STREAMS / 3);
      List<String> answers = stayed.stream().map(Client::answer).toList();
      assertThat(answers)
          .allSatisfy(
              answer ->
                  assertThat(answer)
                      .startsWith("HTTP/1.1 200 OK")
                      .endsWith(DONE)
                      .doesNotContain("\"error\""));
      // The same request always has the same answer.
      assertThat(answers.stream().map(RouterStreamsTest::text).distinct()).hasSize(1);
      cluster.assertClean();
      await(
          "nothing is left in the router",
          () -> {
            String now = cluster.get(router.url(), "/metrics").body();
            return now.contains("halcyon_router_running 0.0")
                && now.contains("halcyon_router_waiting 0.0")
                && now.contains("halcyon_http_calls 1.0") // this one
                && now.contains("halcyon_router_cancels_total{told=\"false\"} 0.0");
          });
    }
  }

  private static String text(String answer) {
    StringBuilder text = new StringBuilder();
    for (String part : answer.split("\"text\":\"", -1)) {
      text.append(part, 0, Math.max(0, part.indexOf('"')));
    }
    return text.toString();
  }

  private static List<Client> run(int port) throws IOException {
    String body =
        "{\"prompt\": \"hello there\", \"max_tokens\": 12, \"temperature\": 0, \"ignore_eos\": true,"
            + " \"stream\": true}";
    ByteBuffer request =
        ByteBuffer.wrap(
            ("POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                    + "Content-Type: application/json\r\nContent-Length: "
                    + body.length()
                    + "\r\n\r\n"
                    + body)
                .getBytes(StandardCharsets.UTF_8));
    List<Client> clients = new ArrayList<>();
    Random random = new Random(5);
    try (Selector selector = Selector.open()) {
      long start = System.nanoTime();
      for (int i = 0; i < STREAMS; i++) {
        SocketChannel channel = SocketChannel.open(new InetSocketAddress("127.0.0.1", port));
        channel.write(request.duplicate());
        channel.configureBlocking(false);
        Client client = new Client(channel, random, start);
        channel.register(selector, SelectionKey.OP_READ, client);
        clients.add(client);
      }
      ByteBuffer buffer = ByteBuffer.allocate(1 << 16);
      while (!selector.keys().isEmpty()) {
        selector.select(20);
        assertThat(System.nanoTime() - start).isLessThan(Duration.ofMinutes(3).toNanos());
        for (SelectionKey key : List.copyOf(selector.keys())) {
          serve(key, buffer);
        }
        selector.selectedKeys().clear();
        selector.selectNow(); // forgets those that were closed
      }
    }
    return clients;
  }

  private static void serve(SelectionKey key, ByteBuffer buffer) throws IOException {
    if (!key.isValid()) {
      return;
    }
    Client client = (Client) key.attachment();
    boolean ended = false;
    if (key.isReadable()) {
      buffer.clear();
      ended = client.channel.read(buffer) < 0;
      client.got.append(StandardCharsets.UTF_8.decode(buffer.flip()));
    }
    if (ended
        || client.got.length() >= client.leaveAfterBytes
        || System.nanoTime() >= client.leaveAtNanos) {
      client.channel.close();
    }
  }
}
