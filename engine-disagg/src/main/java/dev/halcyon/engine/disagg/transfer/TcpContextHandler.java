package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvPiece;
import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.util.concurrent.Future;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A connection of a generation side, as the context side serves it. */
final class TcpContextHandler extends SimpleChannelInboundHandler<ByteBuf> {

  private static final Logger LOG = LoggerFactory.getLogger(TcpContextHandler.class);

  private enum State {
    NEW,
    CHALLENGED,
    OPEN,
    REFUSED
  }

  private final Map<UUID, TcpOffer> offers;
  private final SharedToken token;
  private final long handshakeNanos;
  private State state = State.NEW;
  private Future<?> handshakeTimeout;
  private byte[] clientNonce;
  private byte[] serverNonce;

  TcpContextHandler(Map<UUID, TcpOffer> offers, SharedToken token, long handshakeNanos) {
    this.offers = offers;
    this.token = token;
    this.handshakeNanos = handshakeNanos;
  }

  @Override
  public void channelActive(ChannelHandlerContext context) {
    handshakeTimeout =
        context.executor().schedule(() -> closeLate(context), handshakeNanos, TimeUnit.NANOSECONDS);
    context.fireChannelActive();
  }

  private static void closeLate(ChannelHandlerContext context) {
    LOG.warn("No handshake came from {} in time", context.channel().remoteAddress());
    context.close();
  }

  @Override
  protected void channelRead0(ChannelHandlerContext context, ByteBuf frame) {
    byte type = frame.readByte();
    switch (state) {
      case NEW -> hello(context, type, frame);
      case CHALLENGED -> proof(context, type, frame);
      case OPEN -> serve(context, type, frame);
      case REFUSED -> {
        // What was sent before the peer knew.
      }
    }
  }

  private void hello(ChannelHandlerContext context, byte type, ByteBuf frame) {
    requireType(type, TcpFrames.HELLO);
    short version = TcpFrames.readHello(frame);
    if (version != TcpFrames.VERSION) {
      refuse(
          context,
          String.format(
              "protocol version differs: %d where the prompt was computed, %d where it is to be"
                  + " continued",
              TcpFrames.VERSION, version));
      return;
    }
    clientNonce = TcpFrames.readNonce(frame);
    serverNonce = token.nonce();
    byte[] proof = token.proof(SharedToken.SERVER, clientNonce, serverNonce);
    context.writeAndFlush(TcpFrames.challenge(context.alloc(), serverNonce, proof));
    state = State.CHALLENGED;
  }

  private void proof(ChannelHandlerContext context, byte type, ByteBuf frame) {
    requireType(type, TcpFrames.PROOF);
    byte[] proof = TcpFrames.readProof(frame);
    if (!token.accepts(proof, SharedToken.CLIENT, clientNonce, serverNonce)) {
      refuse(context, "token differs");
      return;
    }
    handshakeTimeout.cancel(false);
    state = State.OPEN;
    context.writeAndFlush(TcpFrames.welcome(context.alloc()));
  }

  private void refuse(ChannelHandlerContext context, String message) {
    LOG.warn("Refused a connection of {}: {}", context.channel().remoteAddress(), message);
    state = State.REFUSED;
    KvTransferException why = new KvTransferException(Reason.REFUSED, message);
    context
        .writeAndFlush(TcpFrames.refuse(context.alloc(), why))
        .addListener(ChannelFutureListener.CLOSE);
  }

  private void serve(ChannelHandlerContext context, byte type, ByteBuf frame) {
    UUID id = TcpFrames.readId(frame);
    TcpOffer offer = offers.get(id);
    switch (type) {
      case TcpFrames.OPEN -> open(context, id, offer, frame);
      case TcpFrames.READ -> {
        // One for a transfer that has ended is late, and the peer knows by now.
        if (offer != null && offer.isFetchedBy(context.channel())) {
          read(context, offer, frame);
        }
      }
      case TcpFrames.DONE -> {
        if (offer != null && offer.isFetchedBy(context.channel())) {
          offer.endedByFetcher(null);
        }
      }
      case TcpFrames.END -> {
        // Whoever knows its name may give up what nobody fetches.
        if (offer != null && (offer.isFetchedBy(context.channel()) || !offer.isFetched())) {
          offer.endedByFetcher(TcpFrames.readError(frame));
        }
      }
      default -> throw new IllegalArgumentException("a frame of type " + type);
    }
  }

  private void open(ChannelHandlerContext context, UUID id, TcpOffer offer, ByteBuf frame) {
    try {
      int firstToken = frame.readInt();
      KvManifest wanted = TcpFrames.readManifest(frame);
      if (offer == null || offer.isFetched()) {
        throw new KvTransferException(
            Reason.UNKNOWN,
            "There is no such prompt: it was fetched before, given up, or timed out");
      }
      offer.source().manifest().requireSame(wanted);
      if (firstToken < 0 || firstToken >= wanted.tokens()) {
        throw new IllegalArgumentException("first token " + firstToken);
      }
      if (!offer.claim(context.channel())) {
        throw new KvTransferException(Reason.UNKNOWN, "The prompt is being fetched by another");
      }
    } catch (KvTransferException e) {
      context.writeAndFlush(TcpFrames.end(context.alloc(), id, e));
    }
  }

  private void read(ChannelHandlerContext context, TcpOffer offer, ByteBuf frame) {
    int number = frame.readInt();
    KvPiece piece = TcpFrames.readPiece(frame);
    offer.send(context.channel(), number, piece);
  }

  private static void requireType(byte type, byte expected) {
    if (type != expected) {
      throw new IllegalArgumentException("a frame of type " + type + " in a handshake");
    }
  }

  @Override
  public void channelInactive(ChannelHandlerContext context) {
    handshakeTimeout.cancel(false);
    KvTransferException lost =
        new KvTransferException(
            Reason.PEER_LOST, "The connection was lost before the prompt was fetched");
    for (TcpOffer offer : List.copyOf(offers.values())) {
      if (offer.isFetchedBy(context.channel())) {
        offer.endedByFetcher(lost);
      }
    }
    context.fireChannelInactive();
  }

  @Override
  public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
    LOG.warn("Closing a connection of {}: {}", context.channel().remoteAddress(), cause.toString());
    context.close();
  }
}
