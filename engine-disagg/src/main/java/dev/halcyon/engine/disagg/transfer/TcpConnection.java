package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.handler.ssl.SslHandshakeCompletionEvent;
import io.netty.handler.timeout.IdleStateEvent;
import io.netty.util.concurrent.Future;
import java.nio.ByteBuffer;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A TCP connection of either side. */
final class TcpConnection extends ChannelInboundHandlerAdapter implements KvConnection {

  private static final Logger LOG = LoggerFactory.getLogger(TcpConnection.class);

  private final KvSession session;
  private final TcpPieceMemory memory;
  private final PieceWorkers workers;
  private final boolean waitsForTls;
  private final long handshakeNanos;
  private final int maxBytes;
  private ChannelHandlerContext context;
  private TcpFrameReader reader;
  private boolean failed;
  private Future<?> handshakeTimeout;

  /**
   * @param memory for pieces
   * @param workers for what is done with them
   * @param waitsForTls whether the session opens once TLS has
   * @param maxBytes the longest frame that may come
   */
  TcpConnection(
      Function<KvConnection, KvSession> session,
      TcpPieceMemory memory,
      PieceWorkers workers,
      boolean waitsForTls,
      long handshakeNanos,
      int maxBytes) {
    this.memory = memory;
    this.workers = workers;
    this.session = session.apply(this);
    this.waitsForTls = waitsForTls;
    this.handshakeNanos = handshakeNanos;
    this.maxBytes = maxBytes;
  }

  @Override
  public void handlerAdded(ChannelHandlerContext added) {
    context = added;
    reader = new TcpFrameReader(session, memory, maxBytes);
  }

  @Override
  public void handlerRemoved(ChannelHandlerContext removed) {
    reader.close();
  }

  @Override
  public void channelActive(ChannelHandlerContext active) {
    handshakeTimeout =
        active.executor().schedule(session::handshakeDue, handshakeNanos, TimeUnit.NANOSECONDS);
    if (!waitsForTls) {
      session.opened();
    }
    active.fireChannelActive();
  }

  @Override
  public void userEventTriggered(ChannelHandlerContext from, Object event) {
    if (event instanceof SslHandshakeCompletionEvent handshake && waitsForTls) {
      if (handshake.isSuccess()) {
        session.opened();
      } else {
        Throwable cause = handshake.cause();
        session.lost(
            new KvTransferException(Reason.REFUSED, "TLS failed: " + cause.getMessage(), cause));
        from.close();
      }
    } else if (event instanceof IdleStateEvent) {
      session.idle();
    }
    from.fireUserEventTriggered(event);
  }

  @Override
  public void channelRead(ChannelHandlerContext from, Object message) {
    ByteBuf bytes = (ByteBuf) message;
    try {
      if (!failed) {
        reader.read(bytes);
      }
    } finally {
      bytes.release();
    }
  }

  /** As {@link TcpFrameReader#rest}. */
  ByteBuf rest() {
    return failed || reader == null ? null : reader.rest();
  }

  @Override
  public void channelInactive(ChannelHandlerContext from) {
    if (handshakeTimeout != null) {
      handshakeTimeout.cancel(false);
    }
    session.lost(null);
    from.fireChannelInactive();
  }

  @Override
  public void exceptionCaught(ChannelHandlerContext from, Throwable cause) {
    LOG.warn("Closing the connection with {}: {}", remote(), cause.toString());
    failed = true;
    session.lost(cause);
    from.close();
  }

  @Override
  public void send(ByteBuf frame) {
    context.writeAndFlush(frame);
  }

  @Override
  public void sendLast(ByteBuf frame) {
    context.writeAndFlush(frame).addListener(ChannelFutureListener.CLOSE);
  }

  @Override
  public OutgoingPiece piece(PieceHeader header, int bytes) {
    ByteBuf frame = memory.acquire(KvFrames.DATA_HEADER_BYTES, bytes);
    return new Piece(header, frame.writerIndex(frame.capacity()));
  }

  @Override
  public void work(Runnable task) {
    workers.execute(task, this::run);
  }

  /** Runs a task on the connection's thread, now if that is the caller; false if it has ended. */
  private boolean run(Runnable task) {
    if (context.executor().inEventLoop()) {
      task.run();
      return true;
    }
    try {
      context.executor().execute(task);
      return true;
    } catch (RejectedExecutionException e) {
      // The transport is closed.
      return false;
    }
  }

  @Override
  public void close() {
    context.close();
  }

  @Override
  public String remote() {
    return String.valueOf(context.channel().remoteAddress());
  }

  /** A frame whose header is written last. */
  private final class Piece implements OutgoingPiece {

    private final PieceHeader header;
    private final ByteBuf frame;

    Piece(PieceHeader header, ByteBuf frame) {
      this.header = header;
      this.frame = frame;
    }

    @Override
    public ByteBuffer data() {
      int start = KvFrames.DATA_HEADER_BYTES;
      return frame.nioBuffer(start, frame.writerIndex() - start);
    }

    /** The checksum is not the engine's work, whose thread this may be. */
    @Override
    public void send(Runnable sent) {
      work(
          () -> {
            complete();
            if (!run(() -> context.writeAndFlush(frame).addListener(done -> sent.run()))) {
              frame.release();
              sent.run();
            }
          });
    }

    private void complete() {
      int end = frame.writerIndex();
      PieceHeader whole = header.withChecksum(KvFrames.checksum(data()));
      KvFrames.writePieceHeader(frame.writerIndex(0), whole).writerIndex(end);
    }

    @Override
    public void drop() {
      frame.release();
    }
  }
}
