package dev.halcyon.engine.disagg.http;

import static dev.halcyon.engine.disagg.TestJson.json;
import static dev.halcyon.engine.disagg.Waiting.await;
import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.EngineMetrics;
import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.disagg.Answers;
import dev.halcyon.engine.disagg.Ends;
import dev.halcyon.engine.disagg.Idleness;
import dev.halcyon.engine.disagg.PrefixAt;
import dev.halcyon.engine.disagg.TestClient;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;

/** A server that does whole requests, and two that share them. */
final class SplitServers implements AutoCloseable {

  static final String COMPLETIONS = "/v1/completions";
  static final String CHAT = "/v1/chat/completions";
  static final String SPLIT = "disaggregated_params";

  /** An endpoint that the decode server knows, and where nobody listens. */
  static final String NOBODY = "http://127.0.0.1:1";

  private static final String KEY = ServerProcess.KEY;

  final TestServer whole;
  final TestServer prefill;
  final TestServer decode;
  private final Ends ends;
  private final AtomicInteger requests = new AtomicInteger();

  private SplitServers(
      Ends ends,
      EngineBuilder wholeEngine,
      EngineBuilder prefillEngine,
      EngineBuilder decodeEngine,
      HttpOptions.Builder decodeOptions) {
    this.ends = ends;
    whole = new TestServer(wholeEngine.build());
    prefill =
        new TestServer(
            prefillEngine.kvTransport(ends.context()).build(),
            TestServer.options().apiKey(KEY).split(SplitOptions.prefill()).build());
    SplitOptions split =
        SplitOptions.decode(
            List.of(URI.create(prefill.service.url() + "/"), URI.create(NOBODY)), KEY);
    decode =
        new TestServer(
            decodeEngine.kvTransport(ends.generation()).build(),
            decodeOptions.split(split).build());
  }

  /**
   * @param model null for the default model
   */
  static SplitServers of(Path model) {
    return of(model, UnaryOperator.identity());
  }

  static SplitServers of(Path model, UnaryOperator<EngineBuilder> all) {
    return of(model, Ends.tcp(), all);
  }

  static SplitServers of(Path model, Ends ends, UnaryOperator<EngineBuilder> all) {
    return new SplitServers(
        ends,
        all.apply(engine(model)),
        all.apply(engine(model)),
        all.apply(engine(model)),
        TestServer.options());
  }

  /** With keys that stay in the process. */
  static SplitServers inProcess(Path model) {
    return new SplitServers(
        Ends.inProcess(), engine(model), engine(model), engine(model), TestServer.options());
  }

  /** With a decode server of its own kind. */
  static SplitServers withDecode(Path model, EngineBuilder decode, HttpOptions.Builder options) {
    return new SplitServers(Ends.tcp(), engine(model), engine(model), decode, options);
  }

  static EngineBuilder engine(Path model) {
    EngineBuilder builder = Engine.builder();
    return (model == null ? builder.defaultModel() : builder.model(model))
        .backend(BackendChoice.CPU)
        .threads(1)
        .maxBatchSize(8)
        .kvCacheTokens(2048)
        .deviceMemoryBytes(64 << 20)
        .prefixReuse(false)
        .integrityChecks(true);
  }

  /** Gives a checkpoint a chat template. */
  static Path withTemplate(Path directory) throws IOException {
    Files.writeString(
        directory.resolve("chat_template.jinja"),
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:");
    return directory;
  }

  static String with(String body, String field, Object value) {
    return Answers.with(body, field, value);
  }

  String newId() {
    return "r-" + requests.incrementAndGet();
  }

  /** What the prefill server hands over. */
  JsonNode prefilled(String body, String id) {
    String asked = with(body, SPLIT, SplitFields.contextOnly(id));
    return json(TestClient.good(prefill.postWithKey("/prefill", asked))).get(SPLIT);
  }

  /** The body for the decode server, once the prefill server has done its part. */
  String second(String body) {
    return with(body, SPLIT, prefilled(body, newId()));
  }

  /** The body with which the decode server asks the prefill server itself. */
  String generationFirst(String body) {
    return with(body, SPLIT, askingAt(prefill.service.url()));
  }

  /** The two servers together, in each style. */
  Map<ScheduleStyle, Answers.Server> styles() {
    Map<ScheduleStyle, Answers.Server> styles = new EnumMap<>(ScheduleStyle.class);
    styles.put(ScheduleStyle.CONTEXT_FIRST, (path, body) -> decode.good(path, second(body)));
    styles.put(
        ScheduleStyle.GENERATION_FIRST, (path, body) -> decode.good(path, generationFirst(body)));
    return styles;
  }

  /**
   * Has servers compute the prompts of a completion, which stay in their caches; the one that does
   * whole requests has what the prefill server has.
   */
  void cache(String body, PrefixAt where) {
    String one = with(body, "max_tokens", 1);
    if (where.prefill()) {
      whole.good(COMPLETIONS, one);
      prefilled(one, newId());
    }
    if (where.decode()) {
      decode.good(COMPLETIONS, one);
    }
  }

  ObjectNode askingAt(String prefillUrl) {
    return generationFirst(newId(), prefillUrl);
  }

  static ObjectNode generationFirst(String id, String prefillUrl) {
    return JsonNodeFactory.instance
        .objectNode()
        .put("request_type", "generation_only")
        .put("schedule_style", "generation_first")
        .put("request_id", id)
        .put("prefill", prefillUrl);
  }

  String cancel(String id) {
    return prefill.postWithKey("/prefill/cancel", "{\"request_id\": \"" + id + "\"}").body();
  }

  /** Requires that nothing of any request is left. */
  void assertClean() {
    await("no transfer is open", () -> ends.openTransfers().getAsInt() == 0);
    for (TestServer server : List.of(whole, prefill, decode)) {
      await("nothing is left in an engine", () -> Idleness.isIdle(server.engine));
      await("no memory is left in use", () -> hasNoResults(server.engine.metrics()));
    }
    assertThat(json(whole.get("/health").body()).get("status").textValue()).isEqualTo("ok");
  }

  private static boolean hasNoResults(EngineMetrics metrics) {
    return metrics.deviceMemory().results() == 0 && metrics.hostMemoryUsed() == 0;
  }

  @Override
  public void close() {
    for (TestServer server : List.of(whole, decode, prefill)) {
      server.close();
      server.engine.close();
    }
    ends.close();
  }
}
