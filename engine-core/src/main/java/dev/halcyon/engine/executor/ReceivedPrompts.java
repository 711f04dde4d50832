package dev.halcyon.engine.executor;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.backend.KvRange;
import dev.halcyon.engine.backend.KvStorage;
import dev.halcyon.engine.kvcache.BlockTable;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvSink;
import dev.halcyon.engine.transfer.KvView;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/** Requests whose prompts' keys and values are on their way from other engines. */
final class ReceivedPrompts {

  private final TransferParts parts;
  private final TransferMailbox mailbox;
  private final Map<ActiveRequest, Arrival> arrivals = new LinkedHashMap<>();
  private final List<Ended> ended = new ArrayList<>();

  /**
   * A transfer that ended by itself.
   *
   * @param error null if everything is in the cache
   */
  record Ended(ActiveRequest request, KvTransferException error) {}

  ReceivedPrompts(TransferParts parts, TransferMailbox mailbox) {
    this.parts = parts;
    this.mailbox = mailbox;
  }

  int count() {
    return arrivals.size();
  }

  /** Whether {@link #takeEnded} has any. */
  boolean hasEnded() {
    return !ended.isEmpty();
  }

  /**
   * Begins to fetch what a sequence lacks of its prompt, for which it has blocks.
   *
   * @param sequence the request's only one so far
   */
  void start(Sequence sequence, KvDescriptor descriptor, long now) {
    ActiveRequest request = sequence.request();
    Arrival arrival =
        new Arrival(
            request,
            sequence.table(),
            sequence.computed(),
            KvManifest.of(parts.layout(), request.prompt()),
            now);
    arrivals.put(request, arrival);
    try {
      arrival.fetch = parts.transport().fetch(descriptor, arrival);
    } catch (KvTransferException e) {
      arrival.close(e);
    } catch (RuntimeException e) {
      arrival.close(
          new KvTransferException(
              Reason.PEER_LOST, "The transport failed to fetch: " + e.getMessage(), e));
    }
  }

  /** A request that may wait for its first tokens has them. */
  void firstTokensCame(ActiveRequest request) {
    Arrival arrival = arrivals.get(request);
    if (arrival != null && !arrival.open) {
      arrivals.remove(request);
      ended.add(new Ended(request, null));
    }
  }

  /** The transfers that ended since the last call. */
  List<Ended> takeEnded() {
    List<Ended> taken = List.copyOf(ended);
    ended.clear();
    return taken;
  }

  /** Gives up what is on its way to a request, if anything; whatever comes late is ignored. */
  void drop(ActiveRequest request) {
    Arrival arrival = arrivals.get(request);
    if (arrival != null) {
      arrival.abandon(
          new KvTransferException(
              Reason.CANCELLED, "The request ended where it was to be continued"));
    }
    ended.removeIf(end -> end.request() == request);
  }

  /** Ends transfers of which nothing came for too long; returns the nanoseconds until the next. */
  long reap(long now) {
    long soonest = Long.MAX_VALUE;
    for (Arrival arrival : List.copyOf(arrivals.values())) {
      long left = parts.timeoutNanos() - (now - arrival.lastProgress);
      if (left > 0) {
        soonest = Math.min(soonest, left);
        continue;
      }
      KvTransferException late =
          new KvTransferException(
              Reason.TIMEOUT,
              String.format(
                  arrival.open
                      ? "Nothing came of the prompt's keys and values for %d ms"
                      : "The first tokens did not come for %d ms after the prompt",
                  parts.timeoutNanos() / 1_000_000));
      arrival.abandon(late);
      ended.add(new Ended(arrival.request, late));
    }
    return soonest;
  }

  void endAll(KvTransferException why) {
    List.copyOf(arrivals.values()).forEach(arrival -> arrival.abandon(why));
    ended.clear();
  }

  /** One prompt on its way. What it shares is touched by the executor's thread alone. */
  private final class Arrival implements KvSink {

    private final ActiveRequest request;
    private final BlockTable table;
    private final int firstToken;
    private final KvManifest manifest;
    private KvFetch fetch;
    private volatile long lastProgress;

    /** Tokens to come, each counted once a layer. */
    private long missing;

    private volatile boolean open = true;

    Arrival(
        ActiveRequest request, BlockTable table, int firstToken, KvManifest manifest, long now) {
      this.request = request;
      this.table = table;
      this.firstToken = firstToken;
      this.manifest = manifest;
      this.lastProgress = now;
      this.missing = (long) (manifest.tokens() - firstToken) * manifest.layout().layers();
    }

    @Override
    public KvManifest manifest() {
      return manifest;
    }

    @Override
    public int firstToken() {
      return firstToken;
    }

    @Override
    public String order() {
      return parts.storage().storedOrder();
    }

    @Override
    public boolean follows() {
      return request.split().mayBeComputing();
    }

    @Override
    public void progress() {
      lastProgress = System.nanoTime();
    }

    @Override
    public void write(KvPiece piece, ByteBuffer from, Consumer<KvTransferException> done) {
      requireWanted(piece);
      if (from.remaining() != piece.bytes(manifest.layout())) {
        throw new IllegalArgumentException(
            piece + " of " + from.remaining() + " bytes is not what is wanted");
      }
      copy(piece, storage -> importTo(storage, piece, from), done);
    }

    @Override
    public boolean accepts(KvView view) {
      return view instanceof CacheView cache && cache.isFor(parts.storage());
    }

    @Override
    public void copy(KvView view, Consumer<KvTransferException> done) {
      KvStorage storage = parts.storage();
      CopyParts all =
          new CopyParts(
              firstToken,
              manifest.tokens(),
              manifest.layout().layers(),
              storage.shape().blockSize(),
              manifest.layout().tokenBytes(),
              storage.copyBytes());
      mailbox.post(() -> copyNext((CacheView) view, all, all.next(), done));
    }

    /** Copies a part, and lets whatever else there is to do come before the next. */
    private void copyNext(
        CacheView view, CopyParts all, KvRange part, Consumer<KvTransferException> done) {
      long tokens = (long) part.layers() * part.count();
      KvTransferException error =
          take(tokens, storage -> view.copyTo(storage, table.blocks(), part));
      KvRange next = all.next();
      if (error != null || next == null) {
        done.accept(error);
      } else {
        mailbox.post(() -> copyNext(view, all, next, done));
      }
    }

    private void importTo(KvStorage storage, KvPiece piece, ByteBuffer from) {
      int[] blocks = table.blocks();
      if (piece.stored()) {
        storage.importStored(piece.layer(), blocks, piece.firstToken(), piece.count(), from);
      } else {
        storage.importTokens(piece.layer(), blocks, piece.firstToken(), piece.count(), from);
      }
    }

    private void requireWanted(KvPiece piece) {
      piece.requireWithin(manifest);
      if (piece.firstToken() < firstToken) {
        throw new IllegalArgumentException(piece + " is not wanted");
      }
    }

    /** Has the executor's thread copy, and say what came of it. */
    private void copy(KvPiece piece, Consumer<KvStorage> copy, Consumer<KvTransferException> done) {
      mailbox.post(() -> done.accept(take(piece.count(), copy)));
    }

    /**
     * Copies on the executor's thread.
     *
     * @param tokens how many come by that, each counted once a layer
     */
    private KvTransferException take(long tokens, Consumer<KvStorage> copy) {
      if (!open) {
        return new KvTransferException(Reason.CANCELLED, "The transfer has ended");
      }
      try {
        copy.accept(parts.storage());
      } catch (KvTransferException e) {
        return e;
      } catch (RuntimeException e) {
        return new KvTransferException(
            Reason.PEER_LOST, "Keys and values can't be written: " + e.getMessage(), e);
      }
      missing -= tokens;
      lastProgress = System.nanoTime();
      return null;
    }

    @Override
    public void end(KvTransferException error) {
      mailbox.post(() -> close(error));
    }

    private void close(KvTransferException error) {
      if (!open) {
        return;
      }
      open = false;
      lastProgress = System.nanoTime();
      KvTransferException outcome = error;
      if (error == null && missing != 0) {
        outcome =
            new KvTransferException(
                Reason.CORRUPT, "The transfer ended with pieces missing or sent twice");
      }
      if (outcome == null && !request.hasFirstTokens()) {
        return; // it keeps its place until they come
      }
      arrivals.remove(request);
      ended.add(new Ended(request, outcome));
    }

    /** Ends it from this side. */
    void abandon(KvTransferException why) {
      open = false;
      arrivals.remove(request);
      if (fetch != null) {
        fetch.cancel(why);
      }
    }
  }
}
