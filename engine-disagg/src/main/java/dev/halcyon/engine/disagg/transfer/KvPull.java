package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvProgress;
import dev.halcyon.engine.transfer.KvSink;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The generation side of a transfer, whatever the way to the other side: asks for pieces layer by
 * layer, as far as they are computed; a few at a time, hands each to the sink and then asks for
 * another. Pieces that were not asked for, came before, or come too late are ignored. Safe for use
 * by several threads.
 */
final class KvPull implements KvFetch {

  /** The way to the context side. Calls must not block. */
  interface Link {

    /** Asks for a piece, which comes by {@link KvPull#arrived}. */
    void request(int number, KvPiece piece);

    /** Says that all was received. */
    void done();

    /** Says that the transfer is given up on this side. */
    void cancel(KvTransferException why);
  }

  /** Most blocks end where positions are multiples of this; pieces that do too are whole blocks. */
  private static final int BLOCKS_END = 64;

  private final KvSink sink;
  private final Link link;
  private final int window;
  private final int tokensPerPiece;

  /** By number, the pieces that were asked for and did not come. */
  private final Map<Integer, KvPiece> requested = new HashMap<>();

  /** What may be asked for. */
  private KvProgress computed;

  /** The tokens that are asked for now in every layer: what was new when the last ones were. */
  private int begin;

  private int end;

  /** The next of them. */
  private int layer;

  private int first;

  /** Tokens to be written, each counted once a layer. */
  private long missing;

  private int next;
  private int written;
  private boolean requesting;
  private boolean ended;

  /**
   * @param pieceBytes how large pieces are to be at most; one token's of a layer if that is more
   * @param window how many may be on their way at once
   */
  KvPull(KvSink sink, Link link, int pieceBytes, int window) {
    this.sink = sink;
    this.link = link;
    this.window = window;
    KvManifest manifest = sink.manifest();
    this.tokensPerPiece = tokensPerPiece(manifest, sink.firstToken(), pieceBytes);
    this.end = sink.firstToken();
    this.first = end;
    this.layer = manifest.layout().layers() - 1;
    this.computed = KvProgress.of(sink.follows() ? 0 : manifest.tokens());
    this.missing = (long) (manifest.tokens() - first) * manifest.layout().layers();
  }

  /** The bytes of the largest piece that is asked for. */
  int largestPiece() {
    return tokensPerPiece * sink.manifest().layout().tokenBytes();
  }

  private static int tokensPerPiece(KvManifest manifest, int firstToken, int pieceBytes) {
    int fitting = Math.max(1, pieceBytes / manifest.layout().tokenBytes());
    if (fitting > BLOCKS_END) {
      fitting -= fitting % BLOCKS_END;
    }
    return Math.min(manifest.tokens() - firstToken, fitting);
  }

  /** Asks for the first pieces. */
  void start() {
    requestMore();
  }

  /** The other side has come so far, or says again that it had. */
  void computed(KvProgress progress) {
    synchronized (this) {
      if (ended) {
        return;
      }
      computed = computed.later(progress);
    }
    sink.progress();
    requestMore();
  }

  /**
   * Whether a piece that is on its way was asked for, and still is wanted. One of another size than
   * asked for ends the transfer.
   */
  boolean expects(int number, int bytes) {
    KvPiece piece;
    synchronized (this) {
      piece = requested.get(number);
      if (ended || piece == null) {
        return false;
      }
    }
    long size = piece.bytes(sink.manifest().layout());
    if (bytes != size) {
      give(
          new KvTransferException(
              Reason.CORRUPT,
              String.format("%s came with %d bytes in place of %d", piece, bytes, size)));
      return false;
    }
    return true;
  }

  /**
   * A piece came.
   *
   * @param stored whether it is in the order that both caches have
   * @param data its bytes
   * @param release called exactly once, when the bytes are no longer needed
   */
  void arrived(int number, boolean stored, ByteBuffer data, Runnable release) {
    KvPiece piece = take(number, data.remaining());
    if (piece == null) {
      release.run();
    } else {
      write(stored ? piece.asStored() : piece, data, release);
    }
  }

  /**
   * A piece came, which is expected no more.
   *
   * @return it, to be handed to {@link #write}; null if it is not wanted, now or any more
   */
  KvPiece take(int number, int bytes) {
    return expects(number, bytes) ? take(number) : null;
  }

  /**
   * Hands a piece to the sink, unless the transfer has ended meanwhile.
   *
   * @param piece what {@link #take} returned, stored if {@code data} is
   * @param data its bytes
   * @param release called exactly once, when the bytes are no longer needed
   */
  void write(KvPiece piece, ByteBuffer data, Runnable release) {
    if (hasEnded()) {
      release.run();
      return;
    }
    Once<KvTransferException> done =
        new Once<>(
            error -> {
              release.run();
              if (error != null) {
                give(error);
              } else {
                pieceWritten(piece);
              }
            });
    try {
      sink.write(piece, data, done);
    } catch (RuntimeException | Error e) {
      done.accept(
          new KvTransferException(
              Reason.PEER_LOST, "Keys and values can't be written: " + e.getMessage(), e));
    }
  }

  /** Whether nothing that comes is wanted any more. */
  synchronized boolean hasEnded() {
    return ended;
  }

  /** The other side, or the way to it, ended the transfer. */
  void failed(KvTransferException error) {
    if (markEnded()) {
      sink.end(error);
    }
  }

  @Override
  public void cancel(KvTransferException why) {
    if (markEnded()) {
      link.cancel(why);
    }
  }

  /** Gives the transfer up for a reason of this side, and says so to both. */
  void give(KvTransferException error) {
    if (markEnded()) {
      link.cancel(error);
      sink.end(error);
    }
  }

  /** A piece that is this caller's to write, or null. */
  private synchronized KvPiece take(int number) {
    return ended ? null : requested.remove(number);
  }

  private void pieceWritten(KvPiece piece) {
    boolean last;
    synchronized (this) {
      written++;
      missing -= piece.count();
      last = missing == 0 && !ended;
      ended |= last;
    }
    if (last) {
      link.done();
      sink.end(null);
    } else {
      requestMore();
    }
  }

  /** One thread at a time asks, so that a side that answers at once makes no deep recursion. */
  private void requestMore() {
    synchronized (this) {
      if (requesting) {
        return;
      }
      requesting = true;
    }
    for (var pieces = nextPieces(); !pieces.isEmpty(); pieces = nextPieces()) {
      pieces.forEach(link::request);
    }
  }

  /** What may be asked for now; if there is nothing, whoever asks has done so. */
  private synchronized Map<Integer, KvPiece> nextPieces() {
    Map<Integer, KvPiece> pieces = new LinkedHashMap<>();
    // Pieces that are being written count too: their memory is in use.
    while (!ended && next - written < window && reachesNext()) {
      int count = Math.min(tokensPerPiece, end - first);
      pieces.put(next++, new KvPiece(layer, first, count));
      first += count;
    }
    requested.putAll(pieces);
    requesting = !pieces.isEmpty();
    return pieces;
  }

  /** Goes on to where the next piece begins; false if that is not computed yet. */
  private boolean reachesNext() {
    if (first == end && layer + 1 < sink.manifest().layout().layers()) {
      layer++;
      first = begin;
    } else if (first == end) {
      int reached = Math.min(computed.tokens(0), sink.manifest().tokens());
      if (reached <= end) {
        return false;
      }
      begin = end;
      end = reached;
      layer = 0;
    }
    return computed.tokens(layer) >= end;
  }

  private synchronized boolean markEnded() {
    boolean first = !ended;
    ended = true;
    return first;
  }
}
