package dev.halcyon.engine.disagg;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvProgress;
import dev.halcyon.engine.transfer.KvSink;
import dev.halcyon.engine.transfer.KvSource;
import dev.halcyon.engine.transfer.KvTransport;
import dev.halcyon.engine.transfer.KvView;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.IntConsumer;

/** Notes in one order which tokens are computed on one side and written on the other. */
public final class FollowedTransport implements KvTransport {

  private static final Duration STANDS_AT_MOST = Duration.ofMinutes(2);

  private final Ends ends;
  private final boolean direct;

  /**
   * After a step "computed n"; "progress"; "read m" and "written m" (m is the token behind the
   * piece); and what ended sources, "source done" or with the reason.
   */
  public final List<String> events = new CopyOnWriteArrayList<>();

  /** Runs on the computing engine's thread after each of its steps, with the tokens so far. */
  public volatile IntConsumer onComputed = computed -> {};

  /** Runs there after each layer of a step, with the tokens that it will have computed. */
  public volatile IntConsumer onLayer = computed -> {};

  /** Everything goes in pieces. */
  public FollowedTransport(Ends ends) {
    this(ends, false);
  }

  /**
   * @param direct whether prompts may be copied straight from the other cache
   */
  FollowedTransport(Ends ends, boolean direct) {
    this.ends = ends;
    this.direct = direct;
  }

  /** This transport as both ends. */
  public Ends ends() {
    return new Ends(this, this, ends.openTransfers());
  }

  public boolean hasWritten() {
    return has("written");
  }

  private boolean has(String event) {
    return events.stream().anyMatch(each -> each.startsWith(event));
  }

  /**
   * Has the computing engine stand still in the midst of its second step, as soon as some of the
   * prompt was read.
   *
   * @param standing runs when it does
   * @param gate opened for it to go on
   */
  public void standOnceRead(Runnable standing, CountDownLatch gate) {
    onLayer =
        computed -> {
          if (has("computed")) {
            onLayer = none -> {};
            Waiting.atMost(STANDS_AT_MOST, () -> has("read"));
            standing.run();
            Waiting.atMost(STANDS_AT_MOST, () -> gate.getCount() == 0);
          }
        };
  }

  @Override
  public KvOffer offer(KvSource source) {
    KvOffer offer = ends.context().offer(new FollowedSource(source));
    AtomicInteger reached = new AtomicInteger();
    return new KvOffer() {
      @Override
      public KvDescriptor descriptor() {
        return offer.descriptor();
      }

      @Override
      public void advanced() {
        KvProgress progress = source.progress();
        boolean inStep = progress.layers() > 0;
        boolean stepEnded = !inStep && reached.getAndSet(progress.tokens()) < progress.tokens();
        if (stepEnded) {
          events.add("computed " + progress.tokens());
        }
        offer.advanced();
        if (inStep) {
          onLayer.accept(progress.ahead());
        } else if (stepEnded) {
          onComputed.accept(progress.tokens());
        }
      }

      @Override
      public void withdraw(KvTransferException why) {
        offer.withdraw(why);
      }
    };
  }

  @Override
  public KvFetch fetch(KvDescriptor descriptor, KvSink sink) {
    return ends.generation()
        .fetch(
            descriptor,
            new ForwardingSink(sink) {
              @Override
              public void progress() {
                events.add("progress");
                super.progress();
              }

              @Override
              public void write(
                  KvPiece piece, ByteBuffer from, Consumer<KvTransferException> done) {
                super.write(
                    piece,
                    from,
                    error -> {
                      if (error == null) {
                        events.add("written " + (piece.firstToken() + piece.count()));
                      }
                      done.accept(error);
                    });
              }

              @Override
              public boolean accepts(KvView view) {
                return direct && super.accepts(view);
              }

              @Override
              public void copy(KvView view, Consumer<KvTransferException> done) {
                events.add("copied");
                super.copy(view, done);
              }
            });
  }

  @Override
  public void close() {
    ends.close();
  }

  /** Notes what is asked for and read, and the end. */
  private final class FollowedSource extends ForwardingSource {

    FollowedSource(KvSource source) {
      super(source);
    }

    @Override
    public void read(KvPiece piece, ByteBuffer to, Consumer<KvTransferException> done) {
      int end = piece.firstToken() + piece.count();
      super.read(
          piece,
          to,
          error -> {
            if (error == null) {
              events.add("read " + end);
            }
            done.accept(error);
          });
    }

    @Override
    public void end(KvTransferException error) {
      events.add("source " + (error == null ? "done" : error.reason()));
      super.end(error);
    }
  }
}
