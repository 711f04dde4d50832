package dev.halcyon.engine.disagg;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvProgress;
import dev.halcyon.engine.transfer.KvSink;
import dev.halcyon.engine.transfer.KvSource;
import dev.halcyon.engine.transfer.KvTransport;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import java.util.function.IntConsumer;

/** Notes in one order which tokens are computed on one side and written on the other. */
public final class FollowedTransport implements KvTransport {

  private final Ends ends;

  /** After a step "computed n"; "written m" (m is the token behind the piece); and "progress". */
  public final List<String> events = new CopyOnWriteArrayList<>();

  /** Runs on the computing engine's thread after each of its steps, with the tokens so far. */
  public volatile IntConsumer onComputed = computed -> {};

  /** Runs there after each layer of a step, with the tokens that it will have computed. */
  public volatile IntConsumer onLayer = computed -> {};

  public FollowedTransport(Ends ends) {
    this.ends = ends;
  }

  /** This transport as both ends. */
  public Ends ends() {
    return new Ends(this, this, ends.openTransfers());
  }

  boolean hasWritten() {
    return events.stream().anyMatch(event -> event.startsWith("written"));
  }

  @Override
  public KvOffer offer(KvSource source) {
    KvOffer offer = ends.context().offer(source);
    return new KvOffer() {
      @Override
      public KvDescriptor descriptor() {
        return offer.descriptor();
      }

      @Override
      public void advanced() {
        KvProgress progress = source.progress();
        boolean stepEnded = progress.layers() == 0;
        if (stepEnded) {
          events.add("computed " + progress.tokens());
        }
        offer.advanced();
        (stepEnded ? onComputed : onLayer).accept(progress.ahead());
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
            new KvSink() {
              @Override
              public KvManifest manifest() {
                return sink.manifest();
              }

              @Override
              public int firstToken() {
                return sink.firstToken();
              }

              @Override
              public boolean follows() {
                return sink.follows();
              }

              @Override
              public void progress() {
                events.add("progress");
                sink.progress();
              }

              @Override
              public void write(
                  KvPiece piece, ByteBuffer from, Consumer<KvTransferException> done) {
                sink.write(
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
              public void end(KvTransferException error) {
                sink.end(error);
              }
            });
  }

  @Override
  public void close() {
    ends.close();
  }
}
