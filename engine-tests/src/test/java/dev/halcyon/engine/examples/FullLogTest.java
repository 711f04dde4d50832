package dev.halcyon.engine.examples;

import static dev.halcyon.engine.disagg.TestJson.json;
import static dev.halcyon.engine.disagg.Waiting.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import dev.halcyon.engine.disagg.Answers;
import dev.halcyon.engine.disagg.TestClient;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Servers whose log can't be written, in processes of their own, go on as if it could: all that
 * they and their libraries have to say, down to single bytes on the wire, fails to be written.
 */
@Timeout(180)
class FullLogTest {

  private static final Path FULL_DEVICE = Path.of("/dev/full");

  /** For three processes that start at once. */
  private static final Duration AT_MOST = Duration.ofMinutes(1);

  /** What transformers gives for the embedded model's reference, greedily. */
  private static final String TEXT = ", there was a little girl named";

  private static final int ROUNDS = 5;

  /** Why writing to the log fails. */
  private enum Log {
    /** Every write says that no space is left. */
    FULL,
    /** Nobody reads what is written. */
    CLOSED_PIPE
  }

  private final TestClient client = new TestClient();
  private final List<Server> servers = new ArrayList<>();

  /** A server in a process of its own. */
  private record Server(Process process, String url) {

    boolean answers(TestClient client) {
      assertThat(process.isAlive()).as("the process lives").isTrue();
      return client
          .sendAsync(TestClient.request(url + "/health").build())
          .handle((response, notYet) -> notYet == null && response.statusCode() == 200)
          .join();
    }

    /** How many connections, listening and open, the process has. */
    long sockets() throws IOException {
      try (Stream<Path> files = Files.list(Path.of("/proc/" + process.pid() + "/fd"))) {
        return files.filter(Server::isSocket).count();
      }
    }

    private static boolean isSocket(Path file) {
      try {
        return Files.readSymbolicLink(file).toString().startsWith("socket:");
      } catch (IOException e) {
        return false; // closed meanwhile
      }
    }
  }

  @AfterEach
  void kill() {
    servers.forEach(server -> server.process().destroyForcibly());
  }

  @ParameterizedTest
  @EnumSource
  void serversGoOn(Log log) throws Exception {
    assumeTrue(Files.exists(FULL_DEVICE), "this system has no /dev/full: Linux has");
    Server prefill = start(log, "--role=prefill");
    Server decode = start(log, "--role=decode");
    Server router =
        start(log, "--role=router", "--prefill=" + prefill.url(), "--decode=" + decode.url());
    for (Server server : servers) {
      await("the server is up", AT_MOST, () -> server.answers(client));
    }
    List<Long> before = new ArrayList<>();
    for (int round = 0; round < ROUNDS; round++) {
      for (Server each : List.of(decode, router)) { // a decode server does whole requests too
        requireGood(each.url());
        requireRefused(each.url());
      }
      if (round == 0) {
        for (Server server : servers) {
          before.add(server.sockets());
        }
      }
    }
    requireNothingLeft(prefill, decode, router);
    for (int i = 0; i < servers.size(); i++) {
      // Each round would leave some; a health check may have a connection of its own.
      assertThat(servers.get(i).sockets()).isLessThan(before.get(i) + ROUNDS - 1);
    }
    for (Server server : List.of(router, decode, prefill)) {
      server.process().destroy(); // SIGTERM: lets requests end, closes all, exits with 128 + 15
      assertThat(server.process().waitFor(30, TimeUnit.SECONDS)).as("it ends").isTrue();
      assertThat(server.process().exitValue()).isEqualTo(143);
    }
  }

  private void requireNothingLeft(Server prefill, Server decode, Server router) {
    await(
        "the router has nothing left",
        AT_MOST,
        () -> metric(router, "halcyon_router_running") == 0);
    assertThat(metric(router, "halcyon_router_waiting")).isZero();
    for (Server server : List.of(prefill, decode)) {
      await(
          "every block is free",
          AT_MOST,
          () -> metric(server, "halcyon_kv_blocks_free") == metric(server, "halcyon_kv_blocks"));
      for (String name : List.of("sequences_running", "sequences_waiting", "prompts_pinned")) {
        assertThat(metric(server, "halcyon_" + name)).as(name).isZero();
      }
      assertThat(metric(server, "halcyon_prompts_receiving")).isZero();
    }
  }

  private Server start(Log log, String... arguments) throws IOException {
    int port;
    try (ServerSocket free = new ServerSocket(0)) {
      port = free.getLocalPort();
    }
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    if (ModuleLayer.boot().findModule("jdk.incubator.vector").isPresent()) {
      command.add("--add-modules=jdk.incubator.vector");
    }
    command.addAll(
        List.of(
            "-Xmx512m",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=trace",
            "-Dhalcyon.progress=true",
            "-cp",
            System.getProperty("java.class.path"),
            ServeCommand.class.getName(),
            "--port=" + port));
    command.addAll(List.of(arguments));
    if (!List.of(arguments).contains("--role=router")) {
      command.addAll(List.of("--backend=cpu", "--threads=1", "--kv-cache-tokens=4096"));
    }
    ProcessBuilder builder = new ProcessBuilder(command);
    if (log == Log.FULL) {
      builder.redirectOutput(FULL_DEVICE.toFile()).redirectError(FULL_DEVICE.toFile());
    }
    Process process = builder.start();
    servers.add(new Server(process, "http://127.0.0.1:" + port));
    if (log == Log.CLOSED_PIPE) {
      process.getInputStream().close();
      process.getErrorStream().close();
    }
    return servers.get(servers.size() - 1);
  }

  private void requireGood(String url) {
    String fields = "{\"prompt\": \"Once upon a time\", \"temperature\": 0, \"stop\": \" Lily\"";
    HttpResponse<String> whole = post(url, fields + "}");
    assertThat(text(json(TestClient.good(whole)))).isEqualTo(TEXT);
    HttpResponse<String> stream = post(url, fields + ", \"stream\": true}");
    List<String> pieces = Answers.events(stream.body()).stream().map(FullLogTest::text).toList();
    assertThat(String.join("", pieces)).isEqualTo(TEXT);
  }

  private void requireRefused(String url) {
    HttpResponse<String> refused = post(url, "{\"prompt\": \"Once\", \"n\": 0}");
    assertThat(refused.statusCode()).isEqualTo(400);
    assertThat(json(refused.body()).at("/error/param").textValue()).isEqualTo("n");
  }

  private HttpResponse<String> post(String url, String body) {
    return client.send(TestClient.posting(url + "/v1/completions", body).build());
  }

  private static String text(JsonNode answer) {
    JsonNode choices = answer.get("choices");
    assertThat(choices).as(answer.toString()).isNotNull();
    return choices.at("/0/text").asText();
  }

  private double metric(Server server, String name) {
    return client
        .send(TestClient.request(server.url() + "/metrics").build())
        .body()
        .lines()
        .filter(line -> line.startsWith(name + " "))
        .mapToDouble(line -> Double.parseDouble(line.substring(name.length() + 1)))
        .findFirst()
        .orElseThrow(() -> new AssertionError("there is no " + name));
  }
}
