package dev.halcyon.engine.disagg.router;

import static dev.halcyon.engine.disagg.Waiting.await;

import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.disagg.Answers;
import dev.halcyon.engine.disagg.Idleness;
import dev.halcyon.engine.disagg.TestClient;
import dev.halcyon.engine.disagg.http.HttpOptions;
import dev.halcyon.engine.disagg.http.HttpService;
import dev.halcyon.engine.disagg.http.SplitOptions;
import dev.halcyon.engine.disagg.server.ServerOptions;
import dev.halcyon.engine.disagg.transfer.NetworkOptions;
import dev.halcyon.engine.disagg.transfer.TcpTransport;
import java.net.URI;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;

/**
 * Two prefill and two decode servers with engines of their own behind a router of each style, keys
 * and values between them over TCP, and beside them one server that does all of a request.
 */
final class RealCluster implements AutoCloseable {

  static final String KEY = "of-the-servers";

  final HttpService whole;
  final Map<ScheduleStyle, DisaggService> routers = new LinkedHashMap<>();
  private final List<Engine> engines = new ArrayList<>();
  private final List<HttpService> prefill = new ArrayList<>();
  private final List<HttpService> decode = new ArrayList<>();
  private final List<TcpTransport> transports = new ArrayList<>();
  private final TestClient client = new TestClient();

  /**
   * @param model null for the default model
   */
  RealCluster(
      Path model,
      UnaryOperator<EngineBuilder> engine,
      UnaryOperator<RouterOptions.Builder> router) {
    whole = HttpService.start(open(engine.apply(builder(model))), options().build());
    for (int i = 0; i < 2; i++) {
      Engine prefillEngine =
          open(engine.apply(builder(model)).kvTransport(transport(NetworkOptions.builder())));
      prefill.add(
          HttpService.start(
              prefillEngine, options().apiKey(KEY).split(SplitOptions.prefill()).build()));
    }
    for (int i = 0; i < 2; i++) {
      NetworkOptions.Builder connecting = NetworkOptions.builder().listen(false);
      Engine decodeEngine = open(engine.apply(builder(model)).kvTransport(transport(connecting)));
      decode.add(
          HttpService.start(
              decodeEngine,
              options().apiKey(KEY).split(SplitOptions.decode(urls(prefill), KEY)).build()));
    }
    for (ScheduleStyle style : ScheduleStyle.values()) {
      RouterOptions.Builder options = options(style).server(RouterRig.server().build());
      routers.put(style, DisaggService.start(router.apply(options).build()));
    }
  }

  /** Options for another router. */
  RouterOptions options(ScheduleStyle style, ServerOptions.Builder server) {
    return options(style).server(server.build()).build();
  }

  private RouterOptions.Builder options(ScheduleStyle style) {
    return RouterOptions.builder()
        .scheduleStyle(style)
        .prefill(urls(prefill))
        .decode(urls(decode))
        .endpointKey(KEY);
  }

  String prefillUrl() {
    return prefill.get(0).url();
  }

  /** Prompts that are kept for decode servers. */
  int pinned() {
    return engines.stream().mapToInt(engine -> engine.metrics().pinnedPrompts()).sum();
  }

  private static HttpOptions.Builder options() {
    return HttpOptions.builder().port(0).modelName("test");
  }

  private static EngineBuilder builder(Path model) {
    EngineBuilder builder = Engine.builder();
    return (model == null ? builder.defaultModel() : builder.model(model))
        .backend(BackendChoice.CPU)
        .threads(1)
        .integrityChecks(true);
  }

  private Engine open(EngineBuilder builder) {
    Engine engine = builder.build();
    engines.add(engine);
    return engine;
  }

  private TcpTransport transport(NetworkOptions.Builder options) {
    TcpTransport transport = new TcpTransport(options.token("of-the-transports").build());
    transports.add(transport);
    return transport;
  }

  private static List<URI> urls(List<HttpService> services) {
    return services.stream().map(service -> URI.create(service.url())).toList();
  }

  /** The server that does all of a request. */
  Answers.Server whole() {
    return (path, body) -> good(whole.url(), path, body);
  }

  /** What stands behind the router of each style. */
  Map<ScheduleStyle, Answers.Server> styles() {
    Map<ScheduleStyle, Answers.Server> styles = new EnumMap<>(ScheduleStyle.class);
    routers.forEach(
        (style, router) -> styles.put(style, (path, body) -> good(router.url(), path, body)));
    return styles;
  }

  private String good(String url, String path, String body) {
    return TestClient.good(post(url, path, body));
  }

  HttpResponse<String> post(String url, String path, String body) {
    return client.send(TestClient.posting(url + path, body).build());
  }

  /** Posts as a router does. */
  HttpResponse<String> postWithKey(String url, String path, String body) {
    return client.send(
        TestClient.posting(url + path, body).header("authorization", "Bearer " + KEY).build());
  }

  HttpResponse<String> get(String url, String path) {
    return client.send(TestClient.request(url + path).build());
  }

  /** Requires that nothing of any request is left anywhere. */
  void assertClean() {
    await(
        "no transfer is open",
        () -> transports.stream().allMatch(transport -> transport.openTransfers() == 0));
    for (Engine engine : engines) {
      await("nothing is left in an engine", () -> Idleness.isIdle(engine));
    }
  }

  @Override
  public void close() {
    routers.values().forEach(DisaggService::close);
    decode.forEach(HttpService::close);
    prefill.forEach(HttpService::close);
    whole.close();
    engines.forEach(Engine::close);
    transports.forEach(TcpTransport::close);
  }
}
