package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.disagg.transfer.KvConnection.OutgoingPiece;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvSource;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

/**
 * A prompt on offer to whoever connects, then on its way to the one whose connection has it. Pieces
 * go over whatever connection they are asked for.
 */
final class NetworkOffer implements KvOffer {

  /**
   * Pieces that are read or sent at once. Twice what a peer may ask for: it may ask for the next
   * before this side knows that the last has left.
   */
  private static final int MAX_IN_FLIGHT = 2 * NetworkOptions.MAX_WINDOW;

  private final UUID id;
  private final KvSource source;
  private final KvDescriptor descriptor;
  private final Map<UUID, NetworkOffer> offers;
  private final AtomicReference<KvConnection> fetcher = new AtomicReference<>();

  /** Whether pieces are sent as both caches store them. */
  private volatile boolean stored;

  private final AtomicInteger inFlight = new AtomicInteger();

  /**
   * @param offers where it is found until it ends
   */
  NetworkOffer(PeerAddress address, KvSource source, Map<UUID, NetworkOffer> offers) {
    this.id = address.transfer();
    this.descriptor = address.descriptor();
    this.source = source;
    this.offers = offers;
  }

  @Override
  public KvDescriptor descriptor() {
    return descriptor;
  }

  KvSource source() {
    return source;
  }

  /**
   * Gives it to a connection, unless another has it.
   *
   * @param order in which the other side understands stored pieces, or null
   */
  boolean claim(KvConnection connection, String order) {
    boolean claimed = fetcher.compareAndSet(null, connection);
    if (claimed) {
      stored = order != null && order.equals(source.order());
    }
    return claimed;
  }

  boolean isFetchedBy(KvConnection connection) {
    return fetcher.get() == connection;
  }

  boolean isFetched() {
    return fetcher.get() != null;
  }

  @Override
  public void advanced() {
    KvConnection connection = fetcher.get();
    if (connection != null && isOnOffer()) {
      connection.send(KvFrames.computed(id, source.progress()));
    }
  }

  @Override
  public void withdraw(KvTransferException why) {
    if (offers.remove(id, this)) {
      tellFetcher(why);
    }
  }

  /** Ends it for both sides, from this one. */
  void fail(KvTransferException why) {
    if (offers.remove(id, this)) {
      source.end(why);
      tellFetcher(why);
    }
  }

  /** The fetching side ended it, or is gone; {@code error} is null once it has all. */
  void endedByFetcher(KvTransferException error) {
    if (offers.remove(id, this)) {
      source.end(error);
    }
  }

  private void tellFetcher(KvTransferException why) {
    KvConnection connection = fetcher.get();
    if (connection != null) {
      connection.send(KvFrames.end(id, why));
    }
  }

  /**
   * Reads a piece and sends it. For the connection's thread alone, though others do the work.
   *
   * @throws IllegalArgumentException if there is no such piece, or too much was asked for
   */
  void send(KvConnection connection, int number, KvPiece piece) {
    piece.requireWithin(source.manifest());
    long bytes = piece.bytes(source.manifest().layout());
    if (bytes > NetworkOptions.MAX_PIECE_BYTES || inFlight.incrementAndGet() > MAX_IN_FLIGHT) {
      throw new IllegalArgumentException("the peer asks for too much at once");
    }
    // The checksum is not known yet.
    OutgoingPiece out = connection.piece(new PieceHeader(id, number, stored, 0), (int) bytes);
    KvPiece asked = stored ? piece.asStored() : piece;
    connection.work(() -> read(asked, out));
  }

  private void read(KvPiece piece, OutgoingPiece out) {
    Once<KvTransferException> done = new Once<>(error -> readDone(out, error));
    if (!isOnOffer()) {
      done.accept(null);
      return;
    }
    try {
      source.read(piece, out.data(), done);
    } catch (RuntimeException | Error e) {
      done.accept(
          new KvTransferException(
              Reason.PEER_LOST, "Keys and values can't be read: " + e.getMessage(), e));
    }
  }

  private void readDone(OutgoingPiece out, KvTransferException error) {
    if (error == null && isOnOffer()) {
      out.send(inFlight::decrementAndGet);
      return;
    }
    inFlight.decrementAndGet();
    out.drop();
    if (error != null) {
      fail(error);
    }
  }

  /** Whether it has not ended on either side. */
  private boolean isOnOffer() {
    return offers.get(id) == this;
  }
}
