package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvSink;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * The generation side of a transfer, whatever the way to the other side: asks for pieces in the
 * order of layers, a few at a time, hands each to the sink and then asks for another. Pieces that
 * were not asked for, came before, or come too late are ignored. Safe for use by several threads.
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
  private final int piecesPerLayer;
  private final int total;

  /** Numbers of pieces that were asked for and did not come. */
  private final Set<Integer> requested = new HashSet<>();

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
    int tokens = manifest.tokens() - sink.firstToken();
    this.tokensPerPiece = tokensPerPiece(manifest, sink.firstToken(), pieceBytes);
    this.piecesPerLayer = (tokens + tokensPerPiece - 1) / tokensPerPiece;
    this.total = Math.multiplyExact(piecesPerLayer, manifest.layout().layers());
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

  /**
   * Whether a piece that is on its way was asked for, and still is wanted. One of another size than
   * asked for ends the transfer.
   */
  boolean expects(int number, int bytes) {
    KvPiece piece;
    synchronized (this) {
      if (ended || !requested.contains(number)) {
        return false;
      }
      piece = piece(number);
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
    if (!expects(number, data.remaining()) || !take(number)) {
      release.run();
      return;
    }
    KvPiece piece = piece(number);
    sink.write(
        stored ? piece.asStored() : piece,
        data,
        error -> {
          release.run();
          if (error != null) {
            give(error);
          } else {
            pieceWritten();
          }
        });
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

  /** Whether the piece is this caller's to write. */
  private synchronized boolean take(int number) {
    return !ended && requested.remove(number);
  }

  private void pieceWritten() {
    boolean last;
    synchronized (this) {
      written++;
      last = written == total && !ended;
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
    for (List<Integer> numbers = nextNumbers(); !numbers.isEmpty(); numbers = nextNumbers()) {
      for (int number : numbers) {
        link.request(number, piece(number));
      }
    }
  }

  /** What may be asked for now; if there is nothing, whoever asks has done so. */
  private synchronized List<Integer> nextNumbers() {
    List<Integer> numbers = new ArrayList<>();
    // Pieces that are being written count too: their memory is in use.
    while (!ended && next < total && next - written < window) {
      requested.add(next);
      numbers.add(next++);
    }
    requesting = !numbers.isEmpty();
    return numbers;
  }

  private KvPiece piece(int number) {
    int layer = number / piecesPerLayer;
    int first = sink.firstToken() + number % piecesPerLayer * tokensPerPiece;
    int count = Math.min(tokensPerPiece, sink.manifest().tokens() - first);
    return new KvPiece(layer, first, count);
  }

  private synchronized boolean markEnded() {
    boolean first = !ended;
    ended = true;
    return first;
  }
}
