package dev.halcyon.engine.disagg.router;

import io.netty.bootstrap.Bootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoop;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.handler.codec.http.DefaultFullHttpRequest;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.HttpClientCodec;
import io.netty.handler.codec.http.HttpDecoderConfig;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpHeaders;
import io.netty.handler.codec.http.HttpMethod;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import io.netty.handler.ssl.SslHandler;
import io.netty.util.NetUtil;
import io.netty.util.concurrent.Future;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import javax.net.ssl.SSLException;

/**
 * Calls endpoints by HTTP. An exchange runs on the event loop of whom it is for, so that an answer
 * can be passed on without locks or queues; connections are kept for each loop.
 */
final class NodeClient {

  private static final int MAX_LINE = 8 << 10;
  private static final int MAX_HEADERS = 32 << 10;
  private static final int CHUNK = 64 << 10;

  private record PoolKey(Node node, EventLoop loop) {}

  private final RouterOptions options;
  private final SslContext tls;
  private final Executor workers;
  private final Map<PoolKey, ConnectionPool> pools = new ConcurrentHashMap<>();
  private final Set<Channel> channels = ConcurrentHashMap.newKeySet();
  private volatile boolean closed;

  /**
   * @param workers where names are resolved
   * @throws IllegalArgumentException if the trusted certificates can't be used
   */
  NodeClient(RouterOptions options, Executor workers) {
    this.options = options;
    this.workers = workers;
    this.tls = tls(options);
  }

  /**
   * Sends a request that counts as the endpoint's load.
   *
   * @param loop where the answer is to come
   * @param body JSON; released in any case
   */
  Exchange post(EventLoop loop, Node node, String path, ByteBuf body, Answer answer) {
    return send(
        loop, new Exchange(node, loop, answer, true), request(node, HttpMethod.POST, path, body));
  }

  /** Sends a request that hardly costs the endpoint anything. */
  Exchange postAside(EventLoop loop, Node node, String path, ByteBuf body, Answer answer) {
    return send(
        loop, new Exchange(node, loop, answer, false), request(node, HttpMethod.POST, path, body));
  }

  Exchange get(EventLoop loop, Node node, String path, Answer answer) {
    return send(
        loop, new Exchange(node, loop, answer, false), request(node, HttpMethod.GET, path, null));
  }

  private Exchange send(EventLoop loop, Exchange exchange, FullHttpRequest request) {
    // Never at once, so that nobody is told of an end before having heard of the begin.
    loop.execute(() -> start(loop, exchange, request));
    return exchange;
  }

  /** Closes all connections; what runs fails. */
  void close() {
    closed = true;
    channels.forEach(Channel::close);
  }

  int connections() {
    return channels.size();
  }

  private FullHttpRequest request(Node node, HttpMethod method, String path, ByteBuf body) {
    ByteBuf content = body == null ? Unpooled.EMPTY_BUFFER : body;
    FullHttpRequest request =
        new DefaultFullHttpRequest(HttpVersion.HTTP_1_1, method, path, content);
    HttpHeaders headers = request.headers();
    headers.set(HttpHeaderNames.HOST, node.authority());
    if (body != null) {
      headers.set(HttpHeaderNames.CONTENT_TYPE, "application/json");
      headers.set(HttpHeaderNames.CONTENT_LENGTH, body.readableBytes());
    }
    if (options.endpointKey() != null) {
      headers.set(HttpHeaderNames.AUTHORIZATION, "Bearer " + options.endpointKey());
    }
    return request;
  }

  private void start(EventLoop loop, Exchange exchange, FullHttpRequest request) {
    if (exchange.isOver()) {
      request.release();
      return;
    }
    ConnectionPool pool =
        pools.computeIfAbsent(new PoolKey(exchange.node(), loop), key -> new ConnectionPool());
    NodeConnection kept = pool.take();
    if (kept != null) {
      kept.carry(exchange, request);
    } else {
      resolve(loop, exchange, request, pool);
    }
  }

  /** Asks for the address elsewhere if it takes a name service, for a loop must not wait. */
  private void resolve(
      EventLoop loop, Exchange exchange, FullHttpRequest request, ConnectionPool pool) {
    Node node = exchange.node();
    if (NetUtil.createByteArrayFromIpAddressString(node.host()) != null) {
      connect(loop, exchange, request, pool, new InetSocketAddress(node.host(), node.port()));
      return;
    }
    try {
      workers.execute(
          () -> {
            try {
              InetSocketAddress address =
                  new InetSocketAddress(InetAddress.getByName(node.host()), node.port());
              loop.execute(() -> connect(loop, exchange, request, pool, address));
            } catch (UnknownHostException e) {
              loop.execute(() -> notSent(exchange, request, "its name is unknown"));
            }
          });
    } catch (RejectedExecutionException e) {
      notSent(exchange, request, "the router is closing");
    }
  }

  private void connect(
      EventLoop loop,
      Exchange exchange,
      FullHttpRequest request,
      ConnectionPool pool,
      InetSocketAddress address) {
    if (closed || exchange.isOver()) {
      notSent(exchange, request, "the router is closing");
      return;
    }
    NodeConnection connection = new NodeConnection(pool);
    Initializer initializer = new Initializer(exchange.node(), connection);
    new Bootstrap()
        .group(loop)
        .channel(NioSocketChannel.class)
        .option(ChannelOption.CONNECT_TIMEOUT_MILLIS, (int) options.connectTimeout().toMillis())
        .option(ChannelOption.TCP_NODELAY, true)
        .option(ChannelOption.SO_KEEPALIVE, true)
        .option(ChannelOption.AUTO_READ, false)
        .handler(initializer)
        .connect(address)
        .addListener(
            connected -> {
              if (!connected.isSuccess()) {
                notSent(exchange, request, "connecting failed: " + connected.cause().getMessage());
              } else if (initializer.handshake() == null) {
                carry(connection, exchange, request);
              } else {
                initializer
                    .handshake()
                    .addListener(
                        secured -> {
                          if (secured.isSuccess()) {
                            carry(connection, exchange, request);
                          } else {
                            notSent(
                                exchange, request, "TLS failed: " + secured.cause().getMessage());
                          }
                        });
              }
            });
  }

  private static void carry(NodeConnection connection, Exchange exchange, FullHttpRequest request) {
    if (exchange.isOver()) {
      request.release();
      connection.close();
    } else {
      connection.carry(exchange, request);
    }
  }

  private static void notSent(Exchange exchange, FullHttpRequest request, String reason) {
    request.release();
    exchange.failed(new ExchangeFailure(ExchangeFailure.Kind.NOT_SENT, reason));
  }

  private static SslContext tls(RouterOptions options) {
    try {
      SslContextBuilder builder =
          SslContextBuilder.forClient().endpointIdentificationAlgorithm("HTTPS");
      if (options.endpointTrust() != null) {
        builder.trustManager(options.endpointTrust().toFile());
      }
      return builder.build();
    } catch (SSLException | IllegalArgumentException e) {
      throw new IllegalArgumentException(
          "endpointTrust " + options.endpointTrust() + " can't be used: " + e.getMessage(), e);
    }
  }

  /** Sets up a new connection. */
  private final class Initializer extends ChannelInitializer<SocketChannel> {

    private final Node node;
    private final NodeConnection connection;
    private SslHandler security;

    Initializer(Node node, NodeConnection connection) {
      this.node = node;
      this.connection = connection;
    }

    /** Null without TLS. */
    Future<Channel> handshake() {
      return security == null ? null : security.handshakeFuture();
    }

    @Override
    protected void initChannel(SocketChannel channel) {
      channels.add(channel);
      channel.closeFuture().addListener(closing -> channels.remove(channel));
      if (closed) {
        channel.close();
        return;
      }
      if (node.isTls()) {
        security = tls.newHandler(channel.alloc(), node.host(), node.port());
        security.setHandshakeTimeoutMillis(options.connectTimeout().toMillis());
        channel.pipeline().addLast(security);
      }
      HttpDecoderConfig config =
          new HttpDecoderConfig()
              .setMaxInitialLineLength(MAX_LINE)
              .setMaxHeaderSize(MAX_HEADERS)
              .setMaxChunkSize(CHUNK);
      channel.pipeline().addLast(new HttpClientCodec(config, false, false)).addLast(connection);
    }
  }
}
