package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvPiece;
import io.netty.buffer.ByteBuf;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A connection of a generation side, as the context side serves it. */
final class ContextSession implements KvSession {

  private static final Logger LOG = LoggerFactory.getLogger(ContextSession.class);

  private enum State {
    NEW,
    CHALLENGED,
    OPEN,
    REFUSED
  }

  private final UUID transport;
  private final Map<UUID, NetworkOffer> offers;
  private final SharedToken token;
  private final KvConnection connection;
  private State state = State.NEW;
  private byte[] clientNonce;
  private byte[] serverNonce;

  /**
   * @param transport what its transport is called in a handshake
   */
  ContextSession(
      UUID transport, Map<UUID, NetworkOffer> offers, SharedToken token, KvConnection connection) {
    this.transport = transport;
    this.offers = offers;
    this.token = token;
    this.connection = connection;
  }

  @Override
  public void opened() {
    // The generation side speaks first.
  }

  @Override
  public void received(ByteBuf frame) {
    byte type = frame.readByte();
    switch (state) {
      case NEW -> hello(type, frame);
      case CHALLENGED -> proof(type, frame);
      case OPEN -> serve(type, frame);
      case REFUSED -> {
        // What was sent before the peer knew.
      }
    }
  }

  private void hello(byte type, ByteBuf frame) {
    requireType(type, KvFrames.HELLO);
    short version = KvFrames.readHello(frame);
    if (version != KvFrames.VERSION) {
      refuse(
          String.format(
              "protocol version differs: %d where the prompt was computed, %d where it is to be"
                  + " continued",
              KvFrames.VERSION, version));
      return;
    }
    clientNonce = KvFrames.readNonce(frame);
    serverNonce = token.nonce();
    byte[] proof = token.proof(SharedToken.SERVER, clientNonce, serverNonce);
    connection.send(KvFrames.challenge(serverNonce, proof));
    state = State.CHALLENGED;
  }

  private void proof(byte type, ByteBuf frame) {
    requireType(type, KvFrames.PROOF);
    byte[] proof = KvFrames.readProof(frame);
    if (!token.accepts(proof, SharedToken.CLIENT, clientNonce, serverNonce)) {
      refuse("token differs");
      return;
    }
    state = State.OPEN;
    connection.send(KvFrames.welcome(transport));
  }

  private void refuse(String message) {
    LOG.warn("Refused a connection of {}: {}", connection.remote(), message);
    state = State.REFUSED;
    connection.sendLast(KvFrames.refuse(new KvTransferException(Reason.REFUSED, message)));
  }

  private void serve(byte type, ByteBuf frame) {
    UUID id = KvFrames.readId(frame);
    NetworkOffer offer = offers.get(id);
    switch (type) {
      case KvFrames.OPEN -> open(id, offer, frame);
      case KvFrames.READ -> {
        // One for a transfer that has ended is late, and the peer knows by now. Whoever knows a
        // prompt's name may have what is fetched already, over connections of its own too.
        if (offer != null && offer.isFetched()) {
          int number = frame.readInt();
          KvPiece piece = KvFrames.readPiece(frame);
          offer.send(connection, number, piece);
        }
      }
      case KvFrames.DONE -> {
        if (offer != null && offer.isFetchedBy(connection)) {
          offer.endedByFetcher(null);
        }
      }
      case KvFrames.END -> {
        // Whoever knows its name may give up what nobody fetches.
        if (offer != null && (offer.isFetchedBy(connection) || !offer.isFetched())) {
          offer.endedByFetcher(KvFrames.readError(frame));
        }
      }
      default -> throw new IllegalArgumentException("a frame of type " + type);
    }
  }

  private void open(UUID id, NetworkOffer offer, ByteBuf frame) {
    try {
      int firstToken = frame.readInt();
      String order = KvFrames.readOrder(frame);
      KvManifest wanted = KvFrames.readManifest(frame);
      if (offer == null || offer.isFetched()) {
        throw new KvTransferException(
            Reason.UNKNOWN,
            "There is no such prompt: it was fetched before, given up, or timed out");
      }
      offer.source().manifest().requireSame(wanted);
      if (firstToken < 0 || firstToken >= wanted.tokens()) {
        throw new IllegalArgumentException("first token " + firstToken);
      }
      if (!offer.claim(connection, order)) {
        throw new KvTransferException(Reason.UNKNOWN, "The prompt is being fetched by another");
      }
      // After the claim, so that no later advance is missed.
      offer.advanced();
    } catch (KvTransferException e) {
      connection.send(KvFrames.end(id, e));
    }
  }

  private static void requireType(byte type, byte expected) {
    if (type != expected) {
      throw new IllegalArgumentException("a frame of type " + type + " in a handshake");
    }
  }

  @Override
  public boolean expects(PieceHeader header, int bytes) {
    return false;
  }

  @Override
  public void data(PieceHeader header, ByteBuffer data, Runnable release) {
    release.run();
    throw new IllegalArgumentException("a piece for the side that has it");
  }

  @Override
  public void handshakeDue() {
    if (state != State.OPEN) {
      LOG.warn("No handshake came from {} in time", connection.remote());
      connection.close();
    }
  }

  @Override
  public void idle() {
    // To close is the generation side's part.
  }

  @Override
  public void lost(Throwable cause) {
    KvTransferException lost =
        new KvTransferException(
            Reason.PEER_LOST, "The connection was lost before the prompt was fetched", cause);
    for (NetworkOffer offer : List.copyOf(offers.values())) {
      if (offer.isFetchedBy(connection)) {
        offer.endedByFetcher(lost);
      }
    }
  }
}
