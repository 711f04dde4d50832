package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvSink;
import dev.halcyon.engine.transfer.KvSource;
import dev.halcyon.engine.transfer.KvTransport;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Between engines of one JVM: the engines that this same transport was given to. Pieces go through
 * a few buffers for each transfer, from one engine's cache to the other's: in the memory of the
 * device where both are on one, on the heap otherwise. It has no threads of its own.
 */
public final class InProcessTransport implements KvTransport {

  private static final String PREFIX = "in-process:";
  private static final int WINDOW = 4;

  private final String id = UUID.randomUUID().toString();
  private final Map<String, Offer> offers = new ConcurrentHashMap<>();
  private volatile boolean closed;

  @Override
  public KvOffer offer(KvSource source) {
    Offer offer = new Offer(source);
    offers.put(offer.name, offer);
    if (closed) {
      offers.remove(offer.name);
      throw closedError();
    }
    return offer;
  }

  @Override
  public KvFetch fetch(KvDescriptor descriptor, KvSink sink) {
    if (closed) {
      throw closedError();
    }
    String name = new String(descriptor.bytes(), StandardCharsets.UTF_8);
    if (!name.startsWith(PREFIX + id)) {
      throw new KvTransferException(
          Reason.REFUSED,
          "kvDescriptor is not one of this transport: both engines need the same InProcessTransport");
    }
    Offer offer = offers.get(name);
    if (offer == null) {
      throw unknown();
    }
    return offer.fetch(sink);
  }

  /** How many prompts are on offer or being fetched. */
  public int openTransfers() {
    return offers.size();
  }

  @Override
  public void close() {
    closed = true;
    for (Offer offer : List.copyOf(offers.values())) {
      offer.end(closedError(), true, true);
    }
  }

  private static KvTransferException closedError() {
    return new KvTransferException(Reason.CLOSED, "The transport is closed");
  }

  private static KvTransferException unknown() {
    return new KvTransferException(
        Reason.UNKNOWN, "There is no such prompt: it was fetched before, given up, or timed out");
  }

  /** A prompt on offer, then on its way. */
  private final class Offer implements KvOffer, KvPull.Link {

    private final String name = PREFIX + id + ":" + UUID.randomUUID();
    private final KvSource source;
    private KvPull pull;
    private PiecePlaces places;

    Offer(KvSource source) {
      this.source = source;
    }

    @Override
    public KvDescriptor descriptor() {
      return new KvDescriptor(name.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public void withdraw(KvTransferException why) {
      end(why, false, true);
    }

    KvFetch fetch(KvSink sink) {
      source.manifest().requireSame(sink.manifest());
      synchronized (this) {
        if (pull != null) {
          throw unknown();
        }
        places = new PiecePlaces(source, sink, WINDOW);
        pull = new KvPull(sink, this, places.pieceBytes(), WINDOW);
      }
      pull.start();
      return pull;
    }

    @Override
    public void request(int number, KvPiece piece) {
      PiecePlaces.Place place = places.take();
      if (place == null) {
        // The transfer has ended meanwhile.
        return;
      }
      place.read(
          piece,
          error -> {
            if (error != null) {
              places.give(place);
              pull.failed(error);
              end(error, true, false);
            } else {
              pull.arrived(number, place::write, () -> places.give(place));
            }
          });
    }

    @Override
    public void done() {
      end(null, true, false);
    }

    @Override
    public void cancel(KvTransferException why) {
      end(why, true, false);
    }

    /** Ends it once; the others hear of it. */
    void end(KvTransferException why, boolean tellSource, boolean tellSink) {
      if (!offers.remove(name, this)) {
        return;
      }
      if (tellSource) {
        source.end(why);
      }
      KvPull running;
      synchronized (this) {
        running = pull;
        if (places != null) {
          places.close();
        }
      }
      if (tellSink && running != null) {
        running.failed(why);
      }
    }
  }
}
