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
import dev.halcyon.engine.transfer.KvView;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Consumer;

/**
 * Between engines of one JVM: the engines that this same transport was given to. Where the caches
 * are of one kind and on one device, the receiving engine copies straight from the other's, once
 * all of the prompt is computed: that is so fast that there is nothing to gain by beginning before.
 * Otherwise pieces go through a few buffers on the heap. It has no threads of its own.
 */
public final class InProcessTransport implements KvTransport {

  private static final String PREFIX = "in-process:";
  private static final int WINDOW = 4;

  /** Copies of this size stay in a processor's cache. */
  private static final int PIECE_BYTES = 1 << 20;

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

    /** Guarded by this: how the sink hears of an end; null as long as nobody fetches. */
    private Consumer<KvTransferException> fetcher;

    /** Guarded by this: what is to be done when more of the prompt is there. */
    private Runnable whenAdvanced = () -> {};

    private KvPull pull;

    /** Buffers for pieces that nobody uses at the moment. */
    private final Queue<ByteBuffer> free = new ConcurrentLinkedQueue<>();

    Offer(KvSource source) {
      this.source = source;
    }

    @Override
    public KvDescriptor descriptor() {
      return new KvDescriptor(name.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public void advanced() {
      Runnable goOn;
      synchronized (this) {
        goOn = whenAdvanced;
      }
      goOn.run();
    }

    @Override
    public void withdraw(KvTransferException why) {
      end(why, false, true);
    }

    KvFetch fetch(KvSink sink) {
      source.manifest().requireSame(sink.manifest());
      KvView view = source.view();
      return view != null && sink.accepts(view) ? copy(sink, view) : pull(sink);
    }

    private KvFetch copy(KvSink sink, KvView view) {
      DirectCopy copy = new DirectCopy(sink, view, error -> end(error, true, false));
      synchronized (this) {
        requireUnfetched();
        fetcher = copy::failed;
        whenAdvanced = copy::advanced;
      }
      copy.advanced();
      return copy;
    }

    private KvFetch pull(KvSink sink) {
      synchronized (this) {
        requireUnfetched();
        pull = new KvPull(sink, this, PIECE_BYTES, WINDOW);
        fetcher = pull::failed;
        whenAdvanced = () -> pull.computed(source.progress());
      }
      pull.start();
      advanced();
      return pull;
    }

    private void requireUnfetched() {
      if (fetcher != null) {
        throw unknown();
      }
    }

    @Override
    public void request(int number, KvPiece piece) {
      ByteBuffer unused = free.poll();
      ByteBuffer bytes = unused != null ? unused : ByteBuffer.allocate(pull.largestPiece());
      source.read(
          piece,
          bytes.clear(),
          error -> {
            if (error != null) {
              pull.failed(error);
              end(error, true, false);
            } else {
              pull.arrived(number, false, bytes.flip(), () -> free.add(bytes));
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
      Consumer<KvTransferException> running;
      synchronized (this) {
        running = fetcher;
      }
      if (tellSink && running != null) {
        running.accept(why);
      }
    }
  }
}
