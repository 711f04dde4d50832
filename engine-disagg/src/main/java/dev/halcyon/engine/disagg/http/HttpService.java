package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.EngineMeterBinder;
import dev.halcyon.engine.QueueFullPolicy;
import dev.halcyon.engine.disagg.server.HttpServer;

/**
 * An HTTP service in front of an engine: OpenAI's completions and chat completions, models, health
 * and metrics. It listens until it is closed; the engine stays the caller's, to be closed after the
 * service.
 *
 * <pre>{@code
 * try (Engine engine = Engine.builder().defaultModel().build();
 *     HttpService service = HttpService.start(engine, HttpOptions.builder().build())) {
 *   ...
 * }
 * }</pre>
 */
public final class HttpService implements AutoCloseable {

  private final HttpServer server;
  private final EngineRoutes routes;

  private HttpService(HttpServer server, EngineRoutes routes) {
    this.server = server;
    this.routes = routes;
  }

  /**
   * Starts to serve an engine.
   *
   * @throws IllegalArgumentException if the engine's submit would wait for a place in its queue: a
   *     full queue is to be said to clients, not waited out by the service's threads; or if it has
   *     no kvTransport and is to take part in split requests
   * @throws EngineException if the address can't be listened on, or the TLS files can't be read
   */
  public static HttpService start(Engine engine, HttpOptions options) {
    if (engine.options().queueFullPolicy() != QueueFullPolicy.FAIL) {
      throw new IllegalArgumentException(
          "queueFullPolicy is " + engine.options().queueFullPolicy() + ", expected FAIL");
    }
    if (options.split() != null && engine.options().kvTransport() == null) {
      throw new IllegalArgumentException(
          "split is " + options.split() + ", for which the engine needs a kvTransport");
    }
    HttpServer server = new HttpServer(options.serverWithHandover(), Failures::of);
    EngineRoutes routes =
        new EngineRoutes(
            engine,
            options,
            new ServiceMetrics(server.registry()),
            server::answerMetrics,
            server.workers());
    HttpService service = new HttpService(server, routes);
    try {
      new EngineMeterBinder(engine).bindTo(server.registry());
      server.start(routes.routes());
      return service;
    } catch (RuntimeException | Error e) {
      service.close();
      throw e;
    }
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
   * not with an error, and returns when all connections are closed. Harmless when done before.
   */
  @Override
  public void close() {
    server.close();
    routes.close();
  }
}
