package dev.halcyon.engine.disagg.server;

import dev.halcyon.engine.EngineException;
import io.micrometer.core.instrument.MeterRegistry;
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
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import javax.net.ssl.SSLException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Listens for HTTP and answers by a table of routes: what an engine's service and a router have in
 * common. It is made, started once, and closed; closing drains.
 */
public final class HttpServer implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(HttpServer.class);
  private static final String PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8";
  private static final int MAX_LINE = 8 << 10;
  private static final int MAX_HEADERS = 32 << 10;
  private static final int CHUNK = 64 << 10;

  /** How long answers that were given up have to reach their clients. */
  private static final Duration LAST_WORDS = Duration.ofSeconds(2);

  private final ServerOptions options;
  private final Function<Throwable, ApiException> failures;
  private final SslContext tls;
  private final PrometheusMeterRegistry registry =
      new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
  private final EventLoopGroup loops;
  private final ThreadPoolExecutor workers;
  private ServiceContext context;
  private Channel listener;
  private boolean drained;
  private boolean closed;

  /**
   * A server that does not listen yet.
   *
   * @param failures what a client is told of something that an endpoint has thrown
   * @throws EngineException if the TLS files can't be read
   */
  public HttpServer(ServerOptions options, Function<Throwable, ApiException> failures) {
    this.options = options;
    this.failures = failures;
    this.tls = tls(options);
    int processors = Runtime.getRuntime().availableProcessors();
    this.workers = workers(Math.max(2, processors));
    this.loops =
        new MultiThreadIoEventLoopGroup(
            Math.max(1, Math.min(4, processors / 2)),
            new DefaultThreadFactory("halcyon-http", false),
            NioIoHandler.newFactory());
  }

  /** Where everything is counted that {@link #answerMetrics} shows. */
  public MeterRegistry registry() {
    return registry;
  }

  /** The loops that connections live on; ended by {@link #close}. */
  public EventLoopGroup loops() {
    return loops;
  }

  /** Threads for work that would hold up a loop. */
  public Executor workers() {
    return workers;
  }

  /**
   * Starts to listen.
   *
   * @throws EngineException if the address can't be listened on
   */
  public void start(List<Route> routes) {
    context =
        new ServiceContext(
            options, new Gate(options, routes), workers, new ServerMetrics(registry), failures);
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

  /** The port that it listens on. */
  public int port() {
    return ((InetSocketAddress) listener.localAddress()).getPort();
  }

  /** Where to call it. */
  public String url() {
    String host = options.host().contains(":") ? "[" + options.host() + "]" : options.host();
    return (options.tlsCertificate() == null ? "http://" : "https://") + host + ":" + port();
  }

  /** Answers a call with all metrics, as Prometheus reads them. */
  public void answerMetrics(Call call) {
    call.respond(200, PROMETHEUS, registry.scrape().getBytes(StandardCharsets.UTF_8));
  }

  /**
   * Stops listening, lets running requests end within {@link ServerOptions#drainTimeout}, ends
   * those that do not with an error, and returns when all connections are closed. Harmless when
   * done before.
   */
  public synchronized void drain() {
    if (drained) {
      return;
    }
    drained = true;
    if (listener != null) {
      LOG.info("Shutting down: {} connections are open", context.connections().size());
      listener.close().syncUninterruptibly();
    }
    if (context == null) {
      return;
    }
    context.drain();
    if (!awaitNoConnections(options.drainTimeout())) {
      LOG.warn("Giving up requests that have not ended within {}", options.drainTimeout());
      context.connections().forEach(each -> each.abort(ApiException.shuttingDown()));
      awaitNoConnections(LAST_WORDS);
      context.connections().forEach(Connection::closeNow);
      awaitNoConnections(LAST_WORDS);
    }
  }

  /** Drains, and ends its threads. Harmless when done before. */
  @Override
  public synchronized void close() {
    if (closed) {
      return;
    }
    closed = true;
    drain();
    workers.shutdown();
    loops.shutdownGracefully(0, 2, TimeUnit.SECONDS).awaitUninterruptibly();
    registry.close();
    if (listener != null) {
      LOG.info("Shut down");
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

  private static SslContext tls(ServerOptions options) {
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
