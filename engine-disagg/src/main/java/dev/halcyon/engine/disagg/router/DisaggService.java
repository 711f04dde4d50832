package dev.halcyon.engine.disagg.router;

import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.HttpServer;
import java.net.URI;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A router in front of prefill and decode endpoints: one server in OpenAI's form for its clients,
 * who get what one engine would have given. It keeps no state that matters: another one in its
 * place, or beside it, works as well.
 *
 * <pre>{@code
 * RouterOptions options =
 *     RouterOptions.builder()
 *         .prefill(List.of(URI.create("http://10.0.0.1:8000")))
 *         .decode(List.of(URI.create("http://10.0.0.2:8000"), URI.create("http://10.0.0.3:8000")))
 *         .build();
 * try (DisaggService router = DisaggService.start(options)) {
 *   ...
 * }
 * }</pre>
 */
public final class DisaggService implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(DisaggService.class);
  private static final long PATIENCE_NANOS = 2_000_000_000L;

  private final HttpServer server;
  private final NodeClient client;
  private final HealthChecks checks;
  private final Pins pins;
  private boolean closed;

  private DisaggService(HttpServer server, NodeClient client, HealthChecks checks, Pins pins) {
    this.server = server;
    this.client = client;
    this.checks = checks;
    this.pins = pins;
  }

  /**
   * Starts to route. Endpoints need not be there yet.
   *
   * @throws EngineException if the address can't be listened on, or the TLS files can't be read
   * @throws IllegalArgumentException if the trusted certificates can't be used
   */
  public static DisaggService start(RouterOptions options) {
    HttpServer server = new HttpServer(options.server(), DisaggService::failure);
    try {
      return start(options, server);
    } catch (RuntimeException | Error e) {
      server.close();
      throw e;
    }
  }

  private static DisaggService start(RouterOptions options, HttpServer server) {
    NodeClient client = new NodeClient(options, server.workers());
    NodeGroup prefill = group(options.prefill(), Role.PREFILL, options);
    NodeGroup decode = group(options.decode(), Role.DECODE, options);
    RouterMetrics metrics = new RouterMetrics(server.registry());
    Pins pins = new Pins(client, server.loops(), metrics);
    PrefixAffinity affinity = new PrefixAffinity(options.affinityEntries());
    RouterParts parts =
        new RouterParts(
            options,
            client,
            new PrefillChoice(prefill, affinity, options.affinitySlack()),
            decode,
            new Admission(options.maxInFlight(), options.maxWaiting()),
            pins,
            new RequestIds(),
            metrics,
            server.workers());
    List<Node> nodes = new ArrayList<>(prefill.nodes());
    nodes.addAll(decode.nodes());
    RouterMetrics.watch(server.registry(), parts.admission(), nodes);
    long seed = new SecureRandom().nextLong();
    server.start(new RouterRoutes(parts, prefill, server::answerMetrics, seed).routes());
    HealthChecks checks =
        new HealthChecks(client, options.healthInterval(), options.healthTimeout());
    checks.start(nodes, server.loops());
    LOG.info("Routing to prefill {} and decode {}", options.prefill(), options.decode());
    return new DisaggService(server, client, checks, pins);
  }

  private static NodeGroup group(List<URI> urls, Role role, RouterOptions options) {
    List<Node> nodes = new ArrayList<>();
    for (URI url : urls) {
      Health health = new Health(options.failuresToMarkDown(), options.successesToMarkUp());
      nodes.add(new Node(url, role, health));
    }
    return new NodeGroup(nodes, options.choice());
  }

  /** The port that it listens on. */
  public int port() {
    return server.port();
  }

  /** Where to call it. */
  public String url() {
    return server.url();
  }

  /**
   * Stops listening, lets running requests end within the options' drainTimeout, ends those that do
   * not with an error, frees what they leave pinned, and returns when all connections and threads
   * are gone. Harmless when done before.
   */
  @Override
  public synchronized void close() {
    if (closed) {
      return;
    }
    closed = true;
    server.drain();
    checks.close();
    pins.close();
    await(() -> !pins.isBusy());
    client.close();
    await(() -> client.connections() == 0);
    server.close();
  }

  private static void await(BooleanSupplier condition) {
    long end = System.nanoTime() + PATIENCE_NANOS;
    boolean interrupted = false;
    while (!condition.getAsBoolean() && System.nanoTime() < end && !interrupted) {
      try {
        Thread.sleep(2);
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private static ApiException failure(Throwable thrown) {
    if (thrown instanceof ApiException known) {
      return known;
    }
    LOG.error("A request failed", thrown);
    return ApiException.failed(500, null, "Internal error");
  }
}
