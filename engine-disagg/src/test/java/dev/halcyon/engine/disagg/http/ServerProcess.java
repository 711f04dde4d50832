package dev.halcyon.engine.disagg.http;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.disagg.Answers;
import dev.halcyon.engine.disagg.Ends;
import dev.halcyon.engine.disagg.FollowedTransport;
import dev.halcyon.engine.disagg.JavaProcess;
import dev.halcyon.engine.disagg.TestClient;
import dev.halcyon.engine.disagg.TestJson;
import dev.halcyon.engine.disagg.Waiting;
import dev.halcyon.engine.disagg.http.SplitOptions.Role;
import dev.halcyon.engine.disagg.transfer.NetworkTransport;
import dev.halcyon.engine.transfer.KvTransport;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;

/** A prefill or a decode server in a process of its own. */
public final class ServerProcess implements AutoCloseable {

  /** What whoever asks a prefill server has to send. */
  public static final String KEY = "of-the-prefill";

  private static final String NONE = "none";
  private static final String STANDING = "standing";

  private final JavaProcess process;
  private final String url;
  private final TestClient client = new TestClient();

  private ServerProcess(JavaProcess process) throws IOException {
    this.process = process;
    this.url = process.says();
  }

  /**
   * @param model null for the default model
   */
  public static ServerProcess prefill(NetworkTransport kind, Path model) throws IOException {
    return new ServerProcess(
        JavaProcess.alike(ServerProcess.class, Role.PREFILL, kind, name(model), NONE, false));
  }

  /**
   * One that stands still when it has given some of a prompt away, and is computing the rest. What
   * it computes may be rounded in another way.
   */
  public static ServerProcess standingPrefill(NetworkTransport kind, Path model)
      throws IOException {
    return new ServerProcess(
        JavaProcess.quick(ServerProcess.class, Role.PREFILL, kind, name(model), NONE, true));
  }

  /**
   * @param prefill where it has prompts computed, if it is asked to
   */
  public static ServerProcess decode(NetworkTransport kind, Path model, String prefill)
      throws IOException {
    return new ServerProcess(
        JavaProcess.alike(ServerProcess.class, Role.DECODE, kind, name(model), prefill, false));
  }

  /** One that may round in another way. */
  static ServerProcess quickDecode(NetworkTransport kind, Path model, String prefill)
      throws IOException {
    return new ServerProcess(
        JavaProcess.quick(ServerProcess.class, Role.DECODE, kind, name(model), prefill, false));
  }

  private static Object name(Path model) {
    return model == null ? NONE : model;
  }

  public URI url() {
    return URI.create(url);
  }

  /** Returns when a {@linkplain #standingPrefill standing} server stands still. */
  public void awaitStanding() throws IOException {
    assertThat(process.says()).isEqualTo(STANDING);
  }

  public void kill() throws InterruptedException {
    process.kill();
  }

  @Override
  public void close() throws InterruptedException {
    kill();
  }

  /** Posts with its key. */
  CompletableFuture<HttpResponse<String>> post(String path, String body) {
    return client.sendAsync(keyed(TestClient.posting(url + path, body)));
  }

  private static HttpRequest keyed(HttpRequest.Builder request) {
    return request.header("authorization", "Bearer " + KEY).build();
  }

  /** What a prefill server hands over. */
  JsonNode prefilled(String body, String id) {
    String asked = Answers.with(body, SplitServers.SPLIT, SplitFields.contextOnly(id));
    return TestJson.json(TestClient.good(post("/prefill", asked).join())).get(SplitServers.SPLIT);
  }

  /** A decode server here that has prompts computed by this prefill server. */
  TestServer decodeServer(Engine engine) {
    return new TestServer(
        engine, TestServer.options().split(SplitOptions.decode(List.of(url()), KEY)).build());
  }

  /** Requires that nothing of any request is left in it. */
  public void assertClean() {
    Waiting.await(
        "nothing is left in the other process",
        () -> isIdle(client.send(keyed(TestClient.request(url + "/metrics"))).body()));
  }

  private static boolean isIdle(String metrics) {
    return List.of("prompts_pinned", "prompts_receiving", "sequences_running", "sequences_waiting")
        .stream()
        .allMatch(name -> metrics.contains("halcyon_" + name + " 0.0"));
  }

  /**
   * An engine as they have: prompts in chunks, and their beginnings cached; no transfer ends
   * because a machine is slow.
   */
  public static EngineBuilder engine(EngineBuilder builder) {
    return builder
        .maxBatchSize(8)
        .maxBatchTokens(8)
        .prefixReuse(true)
        .kvTransferTimeout(Duration.ofMinutes(5));
  }

  /** The server. */
  public static void main(String[] arguments) throws Exception {
    Role role = Role.valueOf(arguments[0]);
    KvTransport transport = Ends.listening(NetworkTransport.valueOf(arguments[1])).context();
    Path model = arguments[2].equals(NONE) ? null : Path.of(arguments[2]);
    List<URI> prefills = arguments[3].equals(NONE) ? List.of() : List.of(URI.create(arguments[3]));
    if (Boolean.parseBoolean(arguments[4])) {
      FollowedTransport followed = new FollowedTransport(Ends.of(transport));
      followed.standOnceRead(() -> JavaProcess.say(STANDING), new CountDownLatch(1));
      transport = followed;
    }
    SplitOptions split =
        role == Role.PREFILL ? SplitOptions.prefill() : SplitOptions.decode(prefills, KEY);
    Engine engine = engine(SplitServers.engine(model)).kvTransport(transport).build();
    HttpOptions options =
        HttpOptions.builder().port(0).modelName("test").apiKey(KEY).split(split).build();
    JavaProcess.say(HttpService.start(engine, options).url());
    JavaProcess.stay();
  }
}
