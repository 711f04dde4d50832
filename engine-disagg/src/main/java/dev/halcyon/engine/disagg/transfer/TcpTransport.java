package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvSink;
import dev.halcyon.engine.transfer.KvSource;
import dev.halcyon.engine.transfer.KvTransport;
import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.AdaptiveRecvByteBufAllocator;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.group.ChannelGroup;
import io.netty.channel.group.DefaultChannelGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.handler.codec.LengthFieldPrepender;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.timeout.IdleStateHandler;
import io.netty.util.concurrent.DefaultThreadFactory;
import io.netty.util.concurrent.GlobalEventExecutor;
import java.net.InetSocketAddress;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * Between processes and machines, over TCP. The context side listens; the generation side connects
 * to where a descriptor says, once for all transfers from there or with several connections, and
 * asks for pieces layer by layer. Every piece has a checksum. See {@link NetworkOptions} for the
 * token and TLS: without TLS whoever can listen on the network can read prompts' keys and values.
 */
public final class TcpTransport implements KvTransport {

  private static final int MAX_FRAME_BYTES =
      KvFrames.DATA_HEADER_BYTES + NetworkOptions.MAX_PIECE_BYTES;
  private static final int IDLE_SECONDS = 60;

  /** What a generation side reads at once with TLS: more than by default, as it reads pieces. */
  private static final int MOST_READ_BYTES = 1 << 18;

  private static final int FIRST_READ_BYTES = 1 << 14;
  private static final int LEAST_READ_BYTES = 1 << 10;

  private final NetworkOptions options;
  private final SslContext clientTls;
  private final EventLoopGroup group;
  private final PieceWorkers workers;
  private final TcpPieceMemory memory = new TcpPieceMemory();

  /** Once it is closed it closes what is still added: threads that end leave that open. */
  private final ChannelGroup channels = new DefaultChannelGroup(GlobalEventExecutor.INSTANCE, true);

  private final NetworkTransfers transfers;
  private final Channel server;

  /**
   * Opens a transport, listening if the options say so.
   *
   * @throws IllegalArgumentException if TLS files can't be used
   * @throws KvTransferException if the address can't be listened on
   */
  public TcpTransport(NetworkOptions options) {
    this.options = options;
    this.transfers = new NetworkTransfers("tcp", options, this::connect);
    this.clientTls = options.tls() == null ? null : options.tls().client();
    SslContext serverTls =
        options.tls() == null || !options.listen() ? null : options.tls().server();
    this.group =
        new MultiThreadIoEventLoopGroup(
            options.threads(),
            new DefaultThreadFactory("halcyon-kv", true),
            NioIoHandler.newFactory());
    this.workers = new PieceWorkers(options.workers());
    this.server = options.listen() ? listen(serverTls) : null;
  }

  private Channel listen(SslContext tls) {
    long handshakeNanos = options.connectTimeout().toNanos();
    ServerBootstrap bootstrap =
        new ServerBootstrap()
            .group(group)
            .channel(NioServerSocketChannel.class)
            .childOption(ChannelOption.TCP_NODELAY, true)
            .childOption(ChannelOption.SO_KEEPALIVE, true)
            .childHandler(
                new ChannelInitializer<SocketChannel>() {
                  @Override
                  protected void initChannel(SocketChannel channel) {
                    channels.add(channel);
                    if (tls != null) {
                      channel.pipeline().addLast(tls.newHandler(channel.alloc()));
                    }
                    channel
                        .pipeline()
                        .addLast(new LengthFieldPrepender(TcpFrameReader.LENGTH_BYTES))
                        .addLast(
                            new TcpConnection(
                                transfers::serve,
                                memory,
                                workers,
                                false,
                                handshakeNanos,
                                KvFrames.MAX_CONTROL_BYTES));
                  }
                });
    ChannelFuture bound = bootstrap.bind(options.host(), options.port()).awaitUninterruptibly();
    if (!bound.isSuccess()) {
      group.shutdownGracefully(0, 1, TimeUnit.SECONDS);
      throw new KvTransferException(
          Reason.PEER_LOST,
          "Can't listen on " + options.host() + ":" + options.port() + ": " + bound.cause(),
          bound.cause());
    }
    transfers.warnIfOpenToStrangers((InetSocketAddress) bound.channel().localAddress());
    return bound.channel();
  }

  /**
   * The port that it listens on.
   *
   * @throws IllegalStateException if it doesn't
   */
  public int port() {
    if (server == null) {
      throw new IllegalStateException("this transport does not listen");
    }
    return ((InetSocketAddress) server.localAddress()).getPort();
  }

  /** How many prompts are on offer here, or on their way here. */
  public int openTransfers() {
    return transfers.open();
  }

  /** How many buffers of pieces are in use. */
  int buffersInUse() {
    return memory.inUse();
  }

  @Override
  public KvOffer offer(KvSource source) {
    if (server == null) {
      throw NetworkTransfers.notListening();
    }
    return transfers.offer(source, port());
  }

  @Override
  public KvFetch fetch(KvDescriptor descriptor, KvSink sink) {
    return transfers.fetch(descriptor, sink);
  }

  private void connect(PeerAddress address, NetworkPeer peer) {
    connect(
        address,
        connection -> transfers.use(peer, () -> connectForPieces(address, peer), connection),
        peer::lost);
  }

  private void connectForPieces(PeerAddress address, NetworkPeer peer) {
    for (int i = 1; i < options.connections(); i++) {
      connect(
          address,
          connection -> transfers.useForPieces(peer, connection),
          NetworkTransfers::doWithout);
    }
  }

  private void connect(
      PeerAddress address,
      Function<KvConnection, KvSession> session,
      Consumer<KvTransferException> onFailure) {
    long nanos = options.connectTimeout().toNanos();
    Bootstrap bootstrap =
        new Bootstrap()
            .group(group)
            .channel(NioSocketChannel.class)
            .option(ChannelOption.TCP_NODELAY, true)
            .option(ChannelOption.SO_KEEPALIVE, true)
            .option(
                ChannelOption.CONNECT_TIMEOUT_MILLIS,
                (int) Math.max(1, options.connectTimeout().toMillis()))
            .handler(
                new ChannelInitializer<SocketChannel>() {
                  @Override
                  protected void initChannel(SocketChannel channel) {
                    channels.add(channel);
                    TcpConnection ours =
                        new TcpConnection(
                            session, memory, workers, clientTls != null, nanos, MAX_FRAME_BYTES);
                    if (clientTls != null) {
                      channel
                          .config()
                          .setRecvByteBufAllocator(
                              new AdaptiveRecvByteBufAllocator(
                                  LEAST_READ_BYTES, FIRST_READ_BYTES, MOST_READ_BYTES));
                      channel
                          .pipeline()
                          .addLast(
                              clientTls.newHandler(
                                  channel.alloc(), address.host(), address.port()));
                    } else {
                      channel.config().setRecvByteBufAllocator(new TcpReads(ours::rest));
                    }
                    channel
                        .pipeline()
                        .addLast(new IdleStateHandler(0, 0, IDLE_SECONDS))
                        .addLast(new LengthFieldPrepender(TcpFrameReader.LENGTH_BYTES))
                        .addLast(ours);
                  }
                });
    bootstrap
        .connect(address.host(), address.port())
        .addListener(
            (ChannelFuture connected) -> {
              if (!connected.isSuccess()) {
                onFailure.accept(
                    new KvTransferException(
                        Reason.PEER_LOST,
                        "Can't connect to "
                            + address.peer()
                            + ": "
                            + connected.cause().getMessage(),
                        connected.cause()));
              }
            });
  }

  /** Ends all transfers, closes all connections, and waits for its threads to end. */
  @Override
  public void close() {
    transfers.shut();
    if (server != null) {
      server.close().awaitUninterruptibly();
    }
    transfers.end();
    channels.close().awaitUninterruptibly(2, TimeUnit.SECONDS);
    group.shutdownGracefully(0, 2, TimeUnit.SECONDS).awaitUninterruptibly(4, TimeUnit.SECONDS);
    // Last, as connections give them work. What still waits finds its transfer ended.
    workers.close();
    memory.close();
  }
}
