package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import io.netty.buffer.ByteBuf;
import java.nio.ByteBuffer;

/** A connection to a context side, from its handshake to its end. */
final class GenerationSession implements KvSession {

  private enum State {
    NEW,
    ANSWERED,
    OPEN
  }

  private final NetworkPeer peer;
  private final SharedToken token;
  private final KvConnection connection;
  private final byte[] nonce;
  private State state = State.NEW;

  GenerationSession(NetworkPeer peer, SharedToken token, KvConnection connection) {
    this.peer = peer;
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
      state = State.OPEN;
      peer.ready(connection);
    } else {
      throw new IllegalArgumentException("a frame of type " + type + " in a handshake");
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
      peer.lost(why);
    } else {
      String how = cause == null ? "was lost" : "failed: " + cause.getMessage();
      peer.lost(new KvTransferException(Reason.PEER_LOST, "The connection " + how, cause));
    }
  }

  private void end(KvTransferException why) {
    peer.lost(why);
    connection.close();
  }
}
