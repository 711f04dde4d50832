package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.handler.ssl.SslHandshakeCompletionEvent;
import io.netty.handler.timeout.IdleStateEvent;
import io.netty.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** A connection to a context side, from its handshake to its end. */
final class TcpGenerationHandler extends SimpleChannelInboundHandler<ByteBuf> {

  private enum State {
    NEW,
    ANSWERED,
    OPEN
  }

  private final TcpPeer peer;
  private final SharedToken token;
  private final boolean tls;
  private final long handshakeNanos;
  private final byte[] nonce;
  private State state = State.NEW;
  private Future<?> handshakeTimeout;

  TcpGenerationHandler(TcpPeer peer, SharedToken token, boolean tls, long handshakeNanos) {
    this.peer = peer;
    this.token = token;
    this.tls = tls;
    this.handshakeNanos = handshakeNanos;
    this.nonce = token.nonce();
  }

  @Override
  public void channelActive(ChannelHandlerContext context) {
    handshakeTimeout =
        context
            .executor()
            .schedule(
                () -> end(context, Reason.PEER_LOST, "The other side does not answer", null),
                handshakeNanos,
                TimeUnit.NANOSECONDS);
    if (!tls) {
      hello(context);
    }
    context.fireChannelActive();
  }

  private void hello(ChannelHandlerContext context) {
    context.writeAndFlush(TcpFrames.hello(context.alloc(), nonce));
  }

  @Override
  public void userEventTriggered(ChannelHandlerContext context, Object event) {
    if (event instanceof SslHandshakeCompletionEvent handshake) {
      if (handshake.isSuccess()) {
        hello(context);
      } else {
        end(
            context,
            Reason.REFUSED,
            "TLS failed: " + handshake.cause().getMessage(),
            handshake.cause());
      }
    } else if (event instanceof IdleStateEvent && peer.retireIfIdle()) {
      context.close();
    }
    context.fireUserEventTriggered(event);
  }

  @Override
  protected void channelRead0(ChannelHandlerContext context, ByteBuf frame) {
    byte type = frame.readByte();
    if (state == State.OPEN) {
      peer.received(type, frame);
    } else if (type == TcpFrames.REFUSE) {
      KvTransferException why = TcpFrames.readError(frame);
      end(context, why.reason(), why.getMessage(), null);
    } else if (state == State.NEW && type == TcpFrames.CHALLENGE) {
      challenge(context, frame);
    } else if (state == State.ANSWERED && type == TcpFrames.WELCOME) {
      handshakeTimeout.cancel(false);
      state = State.OPEN;
      peer.ready(context.channel());
    } else {
      throw new IllegalArgumentException("a frame of type " + type + " in a handshake");
    }
  }

  private void challenge(ChannelHandlerContext context, ByteBuf frame) {
    // The version is the context side's to judge: it knows this side's from HELLO.
    frame.readShort();
    byte[] serverNonce = TcpFrames.readNonce(frame);
    byte[] proof = TcpFrames.readProof(frame);
    if (!token.accepts(proof, SharedToken.SERVER, nonce, serverNonce)) {
      end(context, Reason.REFUSED, "token differs", null);
      return;
    }
    state = State.ANSWERED;
    context.writeAndFlush(
        TcpFrames.proof(context.alloc(), token.proof(SharedToken.CLIENT, nonce, serverNonce)));
  }

  private void end(ChannelHandlerContext context, Reason reason, String message, Throwable cause) {
    peer.lost(new KvTransferException(reason, message, cause));
    context.close();
  }

  @Override
  public void channelInactive(ChannelHandlerContext context) {
    if (handshakeTimeout != null) {
      handshakeTimeout.cancel(false);
    }
    peer.lost(new KvTransferException(Reason.PEER_LOST, "The connection was lost"));
    context.fireChannelInactive();
  }

  @Override
  public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
    end(context, Reason.PEER_LOST, "The connection failed: " + cause.getMessage(), cause);
  }
}
