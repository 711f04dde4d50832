package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import io.netty.buffer.ByteBuf;
import java.nio.ByteBuffer;
import java.util.UUID;
import java.util.function.BiPredicate;
import java.util.function.Consumer;

/**
 * A connection to a context side, from its handshake to its end: that of all transfers from there,
 * or one more for their pieces.
 */
final class GenerationSession implements KvSession {

  private enum State {
    NEW,
    ANSWERED,
    OPEN
  }

  private final NetworkPeer peer;
  private final BiPredicate<KvConnection, UUID> onReady;
  private final Consumer<KvTransferException> onFailure;
  private final SharedToken token;
  private final KvConnection connection;
  private final byte[] nonce;
  private State state = State.NEW;

  /**
   * @param onReady takes the connection once the handshake is done, and the transport it leads to;
   *     says whether it is of use
   * @param onFailure takes why it is not, or why there never will be one
   */
  GenerationSession(
      NetworkPeer peer,
      BiPredicate<KvConnection, UUID> onReady,
      Consumer<KvTransferException> onFailure,
      SharedToken token,
      KvConnection connection) {
    this.peer = peer;
    this.onReady = onReady;
    this.onFailure = onFailure;
    this.token = token;
    this.connection = connection;
    this.nonce = token.nonce();
  }

  @Override
  public void opened() {
    connection.send(KvFrames.hello(nonce));
  }

  @Override
  public void received(ByteBuf frame) {
    byte type = frame.readByte();
    if (state == State.OPEN) {
      peer.received(type, frame);
    } else if (type == KvFrames.REFUSE) {
      end(KvFrames.readError(frame));
    } else if (state == State.NEW && type == KvFrames.CHALLENGE) {
      challenge(frame);
    } else if (state == State.ANSWERED && type == KvFrames.WELCOME) {
      welcome(KvFrames.readId(frame));
    } else {
      throw new IllegalArgumentException("a frame of type " + type + " in a handshake");
    }
  }

  private void welcome(UUID transport) {
    if (onReady.test(connection, transport)) {
      state = State.OPEN;
    } else {
      end(
          new KvTransferException(
              Reason.PEER_LOST, "It leads elsewhere, or the first one is gone"));
    }
  }

  private void challenge(ByteBuf frame) {
    // The version is the context side's to judge: it knows this side's from HELLO.
    frame.readShort();
    byte[] serverNonce = KvFrames.readNonce(frame);
    byte[] proof = KvFrames.readProof(frame);
    if (!token.accepts(proof, SharedToken.SERVER, nonce, serverNonce)) {
      end(new KvTransferException(Reason.REFUSED, "token differs"));
      return;
    }
    state = State.ANSWERED;
    connection.send(KvFrames.proof(token.proof(SharedToken.CLIENT, nonce, serverNonce)));
  }

  @Override
  public boolean expects(PieceHeader header, int bytes) {
    return state == State.OPEN && peer.expects(header, bytes);
  }

  @Override
  public void data(PieceHeader header, ByteBuffer data, Runnable release) {
    if (state == State.OPEN) {
      peer.data(header, data, release);
    } else {
      release.run();
      throw new IllegalArgumentException("a piece in a handshake");
    }
  }

  @Override
  public void handshakeDue() {
    if (state != State.OPEN) {
      end(new KvTransferException(Reason.PEER_LOST, "The other side does not answer"));
    }
  }

  @Override
  public void idle() {
    if (peer.retireIfIdle()) {
      connection.close();
    }
  }

  @Override
  public void lost(Throwable cause) {
    if (cause instanceof KvTransferException why) {
      tell(why);
    } else {
      String how = cause == null ? "was lost" : "failed: " + cause.getMessage();
      tell(new KvTransferException(Reason.PEER_LOST, "The connection " + how, cause));
    }
  }

  private void end(KvTransferException why) {
    tell(why);
    connection.close();
  }

  private void tell(KvTransferException why) {
    if (state == State.OPEN) {
      peer.lost(why);
    } else {
      onFailure.accept(why);
    }
  }
}
