package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.EngineMeterBinder;
import dev.halcyon.engine.QueueFullPolicy;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.HttpDecoderConfig;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import io.netty.util.concurrent.DefaultThreadFactory;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

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

  private static final Logger LOG = LoggerFactory.getLogger(HttpService.class);
  private static final int MAX_LINE = 8 << 10;
  private static final int MAX_HEADERS = 32 << 10;
  private static final int CHUNK = 64 << 10;

  /** How long answers that were given up have to reach their clients. */
  private static final Duration LAST_WORDS = Duration.ofSeconds(2);

  private final HttpOptions options;
  private final ServiceContext context;
  private final PrometheusMeterRegistry registry;
  private final EventLoopGroup loops;
  private final ThreadPoolExecutor workers;
  private Channel listener;
  private boolean closed;

  private HttpService(HttpOptions options, Engine engine) {
    this.options = options;
    this.registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
    new EngineMeterBinder(engine).bindTo(registry);
    ServiceMetrics metrics = new ServiceMetrics(registry);
    List<Route> routes = new EngineRoutes(engine, options, metrics, registry::scrape).routes();
    int processors = Runtime.getRuntime().availableProcessors();
    this.workers = workers(Math.max(2, processors));
    this.context = new ServiceContext(options, new Gate(options, routes), workers, metrics);
    this.loops =
        new MultiThreadIoEventLoopGroup(
            Math.max(1, Math.min(4, processors / 2)),
            new DefaultThreadFactory("halcyon-http", false),
            NioIoHandler.newFactory());
  }

  /**
   * Starts to serve an engine.
   *
   * @throws IllegalArgumentException if the engine's submit would wait for a place in its queue: a
   *     full queue is to be said to clients, not waited out by the service's threads
   * @throws EngineException if the address can't be listened on, or the TLS files can't be read
   */
  public static HttpService start(Engine engine, HttpOptions options) {
    if (engine.options().queueFullPolicy() != QueueFullPolicy.FAIL) {
      throw new IllegalArgumentException(
          "queueFullPolicy is " + engine.options().queueFullPolicy() + ", expected FAIL");
    }
    SslContext tls = tls(options);
    HttpService service = new HttpService(options, engine);
    try {
      service.listen(tls);
      return service;
    } catch (RuntimeException | Error e) {
      service.close();
      throw e;
    }
  }

  /** The port that it listens on. */
  public int port() {
    return ((InetSocketAddress) listener.localAddress()).getPort();
  }

  /** Where to call it. */
  public String url() {
    String host = options.host().contains(":") ? "[" + options.host() + "]" : options.host();
    return (options.tlsCertificate() == null ? "http://" : "https://") + host + ":" + port();
  }

  /**
   * Stops listening, lets running requests end within {@link HttpOptions#drainTimeout}, ends those
   * that do not with an error, and returns when all connections are closed. Harmless when done
   * before.
   */
  @Override
  public synchronized void close() {
    if (closed) {
      return;
    }
    closed = true;
    if (listener != null) {
      LOG.info("Shutting down: {} connections are open", context.connections().size());
      listener.close().syncUninterruptibly();
    }
    context.drain();
    if (!awaitNoConnections(options.drainTimeout())) {
      LOG.warn("Giving up requests that have not ended within {}", options.drainTimeout());
      context.connections().forEach(each -> each.abort(ApiException.shuttingDown()));
      awaitNoConnections(LAST_WORDS);
      context.connections().forEach(Connection::closeNow);
      awaitNoConnections(LAST_WORDS);
    }
    workers.shutdown();
    loops.shutdownGracefully(0, 2, TimeUnit.SECONDS).awaitUninterruptibly();
    registry.close();
    if (listener != null) {
      LOG.info("Shut down");
    }
  }

  private void listen(SslContext tls) {
    ChannelFuture bound =
        new ServerBootstrap()
            .group(loops)
            .channel(NioServerSocketChannel.class)
            .option(ChannelOption.SO_BACKLOG, 1024)
            .option(ChannelOption.SO_REUSEADDR, true)
            .childOption(ChannelOption.TCP_NODELAY, true)
            .childOption(ChannelOption.SO_KEEPALIVE, true)
            .childHandler(new Pipeline(context, tls))
            .bind(options.host(), options.port())
            .awaitUninterruptibly();
    if (!bound.isSuccess()) {
      throw new EngineException(
          "Can't listen on "
              + options.host()
              + ":"
              + options.port()
              + ": "
              + bound.cause().getMessage(),
          bound.cause());
    }
    listener = bound.channel();
    LOG.info("Listening on {}", url());
    boolean local = ((InetSocketAddress) listener.localAddress()).getAddress().isLoopbackAddress();
    if (!local && options.apiKey() == null) {
      LOG.warn("Whoever reaches this address can use the model: there is no API key");
    }
  }

  /** Waits until all connections are closed; false if that takes longer than it may. */
  private boolean awaitNoConnections(Duration most) {
    long end = System.nanoTime() + most.toNanos();
    boolean interrupted = false;
    while (!context.connections().isEmpty() && System.nanoTime() < end && !interrupted) {
      try {
        Thread.sleep(5);
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
    return context.connections().isEmpty();
  }

  private static SslContext tls(HttpOptions options) {
    if (options.tlsCertificate() == null) {
      return null;
    }
    try {
      return SslContextBuilder.forServer(
              options.tlsCertificate().toFile(), options.tlsKey().toFile())
          .build();
    } catch (SSLException | IllegalArgumentException e) {
      throw new EngineException("The TLS certificate and key can't be used: " + e.getMessage(), e);
    }
  }

  /** Threads that parse, tokenize and submit; what waits for one is bounded by the connections. */
  private static ThreadPoolExecutor workers(int size) {
    ThreadPoolExecutor workers =
        new ThreadPoolExecutor(
            size,
            size,
            5,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(),
            new DefaultThreadFactory("halcyon-http-worker", true));
    workers.allowCoreThreadTimeOut(true);
    return workers;
  }

  /** Sets up each new connection. */
  private static final class Pipeline extends ChannelInitializer<SocketChannel> {

    private final ServiceContext context;
    private final SslContext tls;

    Pipeline(ServiceContext context, SslContext tls) {
      this.context = context;
      this.tls = tls;
    }

    @Override
    protected void initChannel(SocketChannel channel) {
      if (tls != null) {
        channel.pipeline().addLast(tls.newHandler(channel.alloc()));
      }
      channel
          .pipeline()
          .addLast(
              new HttpServerCodec(
                  new HttpDecoderConfig()
                      .setMaxInitialLineLength(MAX_LINE)
                      .setMaxHeaderSize(MAX_HEADERS)
                      .setMaxChunkSize(CHUNK)))
          .addLast(new Connection(context));
    }
  }
}
