package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvSink;
import dev.halcyon.engine.transfer.KvSource;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.function.Consumer;

/**
 * Where the pieces of a transfer within this JVM lie between the source that writes them and the
 * sink that reads them: parts of a stage on the device if the source has one that the sink accepts,
 * arrays otherwise. Safe for use by several threads.
 */
final class PiecePlaces implements AutoCloseable {

  /** Copies on the heap stay in a processor's cache. */
  private static final int HOST_BYTES = 1 << 20;

  /** On a device a copy is faster than what is done about it, for pieces that are not large. */
  private static final int DEVICE_BYTES = 1 << 22;

  private final KvSource source;
  private final KvSink sink;

  /** Null where pieces go over the heap. */
  private final DeviceBuffer stage;

  private final int pieceBytes;

  private final Deque<Place> free = new ArrayDeque<>();
  private int made;
  private boolean closed;

  /** Room for a piece. */
  interface Place {

    /** Has the source write a piece here. */
    void read(KvPiece piece, Consumer<KvTransferException> done);

    /** Has the sink take it. */
    void write(KvPiece piece, Consumer<KvTransferException> done);
  }

  /**
   * @param most how many are in use at once at most
   */
  PiecePlaces(KvSource source, KvSink sink, int most) {
    this.source = source;
    this.sink = sink;
    int onDevice = KvPull.largestPiece(sink, DEVICE_BYTES);
    stage = stage(source, sink, (long) most * onDevice);
    pieceBytes = stage != null ? onDevice : KvPull.largestPiece(sink, HOST_BYTES);
  }

  private static DeviceBuffer stage(KvSource source, KvSink sink, long bytes) {
    DeviceBuffer offered = source.stage(bytes);
    boolean accepted = false;
    try {
      accepted = offered != null && sink.accepts(offered);
    } finally {
      if (offered != null && !accepted) {
        offered.close();
      }
    }
    return accepted ? offered : null;
  }

  /** The size of the largest piece. */
  int pieceBytes() {
    return pieceBytes;
  }

  /** A place that nobody uses; null once this is closed. */
  synchronized Place take() {
    if (closed) {
      return null;
    }
    Place place = free.poll();
    if (place != null) {
      return place;
    }
    long at = (long) made++ * pieceBytes;
    return stage == null ? new HostPlace() : new StagePlace(stage.slice(at, pieceBytes));
  }

  /** Takes a place back. */
  void give(Place place) {
    synchronized (this) {
      free.push(place);
    }
    freeIfUnused();
  }

  /** Frees the stage as soon as no place is in use. */
  @Override
  public void close() {
    synchronized (this) {
      closed = true;
    }
    freeIfUnused();
  }

  private void freeIfUnused() {
    boolean unused;
    synchronized (this) {
      unused = closed && free.size() == made;
    }
    // Closing twice is harmless; no place is taken any more.
    if (unused && stage != null) {
      stage.close();
    }
  }

  private final class HostPlace implements Place {

    private final ByteBuffer bytes = ByteBuffer.allocate(pieceBytes);

    @Override
    public void read(KvPiece piece, Consumer<KvTransferException> done) {
      source.read(piece, bytes.clear(), done);
    }

    @Override
    public void write(KvPiece piece, Consumer<KvTransferException> done) {
      sink.write(piece, bytes.flip(), done);
    }
  }

  private final class StagePlace implements Place {

    private final DeviceBuffer part;

    StagePlace(DeviceBuffer part) {
      this.part = part;
    }

    @Override
    public void read(KvPiece piece, Consumer<KvTransferException> done) {
      source.read(piece, part, done);
    }

    @Override
    public void write(KvPiece piece, Consumer<KvTransferException> done) {
      sink.write(piece, part, done);
    }
  }
}
