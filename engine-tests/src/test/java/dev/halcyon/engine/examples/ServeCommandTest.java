package dev.halcyon.engine.examples;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.disagg.TestClient;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.net.http.HttpRequest;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ServeCommandTest {

  private final ByteArrayOutputStream out = new ByteArrayOutputStream();
  private final ByteArrayOutputStream err = new ByteArrayOutputStream();
  private final TestClient client = new TestClient();
  private final CountDownLatch stop = new CountDownLatch(1);
  private final CompletableFuture<String> service = new CompletableFuture<>();

  private int run(Map<String, String> environment, String... arguments) {
    return ServeCommand.run(
        new PrintStream(out, true),
        new PrintStream(err, true),
        environment,
        service::complete,
        stop,
        arguments);
  }

  /** The text is the greedy one that transformers gives for the embedded model's reference. */
  @Test
  void servesUntilItIsStopped(@TempDir Path directory) throws Exception {
    Path keyFile = Files.writeString(directory.resolve("key"), "from-a-file\n");
    CompletableFuture<Integer> code =
        start(
            Map.of("HALCYON_API_KEY", "from-the-environment"),
            service,
            "--model-name=stories",
            "--api-key-file=" + keyFile,
            "--backend=cpu",
            "--threads=2");
    String url = service.get(60, TimeUnit.SECONDS);
    assertThat(url).startsWith("http://127.0.0.1:");
    HttpRequest.Builder request =
        TestClient.posting(
            url + "/v1/completions",
            "{\"model\": \"stories\", \"prompt\": \"Once upon a time\", \"temperature\": 0,"
                + " \"stop\": \" Lily\"}");
    assertThat(client.send(request.build()).statusCode()).isEqualTo(401);
    request.header("authorization", "Bearer from-a-file");
    assertThat(client.send(request.build()).body())
        .contains("\"text\":\", there was a little girl named\"");
    stop.countDown();
    assertThat(code.get(60, TimeUnit.SECONDS)).isZero();
    assertThat(out.size()).isZero();
  }

  @Test
  void prefillAndDecodeServersShareARequest(@TempDir Path directory) throws Exception {
    Path token = Files.writeString(directory.resolve("token"), "secret\n");
    CompletableFuture<String> prefill = new CompletableFuture<>();
    CompletableFuture<Integer> first =
        start(
            Map.of("HALCYON_API_KEY", "k", "HALCYON_KV_TOKEN", "secret"),
            prefill,
            "--role=prefill",
            "--kv-timeout=10",
            "--threads=1");
    String prefillUrl = prefill.get(60, TimeUnit.SECONDS);
    CompletableFuture<Integer> second =
        start(
            Map.of("HALCYON_API_KEY", "k"),
            service,
            "--role=decode",
            "--kv-token-file=" + token,
            "--prefill=" + prefillUrl,
            "--threads=1");
    String body =
        "{\"prompt\": \"Once upon a time\", \"temperature\": 0, \"stop\": \" Lily\","
            + " \"disaggregated_params\": {\"request_type\": \"generation_only\","
            + " \"schedule_style\": \"generation_first\", \"request_id\": \"r\", \"prefill\": \""
            + prefillUrl
            + "\"}}";
    HttpRequest request =
        TestClient.posting(service.get(60, TimeUnit.SECONDS) + "/v1/completions", body)
            .header("authorization", "Bearer k")
            .build();
    assertThat(client.send(request).body())
        .contains("\"text\":\", there was a little girl named\"");
    stop.countDown();
    assertThat(first.get(60, TimeUnit.SECONDS)).isZero();
    assertThat(second.get(60, TimeUnit.SECONDS)).isZero();
    assertThat(err.size()).isZero();
  }

  @Test
  void aRouterStandsInFrontOfThem() throws Exception {
    Map<String, String> environment = Map.of("HALCYON_API_KEY", "k", "HALCYON_KV_TOKEN", "secret");
    CompletableFuture<String> prefill = new CompletableFuture<>();
    CompletableFuture<String> decode = new CompletableFuture<>();
    List<CompletableFuture<Integer>> codes = new ArrayList<>();
    codes.add(start(environment, prefill, "--role=prefill", "--threads=1"));
    codes.add(start(environment, decode, "--role=decode", "--threads=1"));
    codes.add(
        start(
            environment,
            service,
            "--role=router",
            "--prefill=" + prefill.get(60, TimeUnit.SECONDS),
            "--decode=" + decode.get(60, TimeUnit.SECONDS),
            "--choice=round_robin",
            "--schedule-style=context_first"));
    HttpRequest request =
        TestClient.posting(
                service.get(60, TimeUnit.SECONDS) + "/v1/completions",
                "{\"prompt\": \"Once upon a time\", \"temperature\": 0, \"stop\": \" Lily\"}")
            .header("authorization", "Bearer k")
            .build();
    assertThat(client.send(request).body())
        .contains("\"text\":\", there was a little girl named\"");
    stop.countDown();
    for (CompletableFuture<Integer> code : codes) {
      assertThat(code.get(60, TimeUnit.SECONDS)).isZero();
    }
    assertThat(err.size()).isZero();
  }

  /** In a thread of its own: the common pool, which may have but one, is not for what blocks. */
  private CompletableFuture<Integer> start(
      Map<String, String> environment, CompletableFuture<String> started, String... arguments) {
    List<String> all = new ArrayList<>(List.of(arguments));
    all.add("--port=0");
    return CompletableFuture.supplyAsync(
        () ->
            ServeCommand.run(
                new PrintStream(out, true),
                new PrintStream(err, true),
                environment,
                started::complete,
                stop,
                all.toArray(String[]::new)),
        task -> new Thread(task).start());
  }

  @ParameterizedTest
  @CsvSource({
    "--port=x, --port",
    "--port=70000, port",
    "--threads=0, threads",
    "--tls-key=x, tlsCertificate",
    "--request-timeout=0, requestTimeout",
    "--what, --what",
    "--role=whole, --role",
    "--kv-port=1, --kv-port",
    "--kv-timeout=1, --kv-",
    "--kv-connections=2, --kv-",
    "--role=decode --kv-connections=0, connections",
    "--kv-transport=tcp, --kv-",
    "--kv-transport=pigeon, --kv-transport",
    "--prefill=http://x, --prefill",
    "--decode=http://x, --decode",
    "--role=router, prefill",
    "--role=router --model=x, --model",
    "--role=router --kv-port=1, --kv-port",
    "--role=router --prefill=http://x:1 --decode=x, decode",
  })
  void aWrongArgumentIsNamed(String argument, String named) {
    assertThat(run(Map.of(), argument.split(" "))).isEqualTo(2);
    assertThat(err.toString(StandardCharsets.UTF_8)).startsWith("serve: ").contains(named);
  }

  @Test
  void aModelThatIsNotThereIsSaid() {
    assertThat(run(Map.of(), "--model=no-such-folder", "--port=0")).isEqualTo(1);
    assertThat(err.toString(StandardCharsets.UTF_8)).contains("no-such-folder");
  }

  @Test
  void helpListsTheOptions() {
    assertThat(run(Map.of(), "--help")).isZero();
    assertThat(out.toString(StandardCharsets.UTF_8))
        .contains("--host", "--api-key-file", "HALCYON_API_KEY", "--drain-timeout");
  }
}
