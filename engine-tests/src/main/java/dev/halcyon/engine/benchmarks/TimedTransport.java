package dev.halcyon.engine.benchmarks;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvSink;
import dev.halcyon.engine.transfer.KvSource;
import dev.halcyon.engine.transfer.KvTransport;
import dev.halcyon.engine.transfer.KvView;
import java.nio.ByteBuffer;
import java.util.function.Consumer;

/** Times what is fetched through a transport, from asking for it until the last piece is there. */
final class TimedTransport implements KvTransport {

  private final KvTransport inner;
  private volatile Transfer last;

  /** What was fetched, and how long that took. */
  record Transfer(long bytes, double seconds) {}

  TimedTransport(KvTransport inner) {
    this.inner = inner;
  }

  /** The transfer that ended last; null if there was none. */
  Transfer last() {
    return last;
  }

  @Override
  public KvOffer offer(KvSource source) {
    return inner.offer(source);
  }

  @Override
  public KvFetch fetch(KvDescriptor descriptor, KvSink sink) {
    return inner.fetch(descriptor, new TimedSink(sink));
  }

  @Override
  public void close() {
    inner.close();
  }

  private final class TimedSink implements KvSink {

    private final KvSink sink;
    private final long start = System.nanoTime();

    TimedSink(KvSink sink) {
      this.sink = sink;
    }

    @Override
    public KvManifest manifest() {
      return sink.manifest();
    }

    @Override
    public String order() {
      return sink.order();
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
      sink.progress();
    }

    @Override
    public void write(KvPiece piece, ByteBuffer from, Consumer<KvTransferException> done) {
      sink.write(piece, from, done);
    }

    @Override
    public boolean accepts(KvView view) {
      return sink.accepts(view);
    }

    @Override
    public void copy(KvView view, Consumer<KvTransferException> done) {
      sink.copy(view, done);
    }

    @Override
    public void end(KvTransferException error) {
      if (error == null) {
        KvManifest manifest = sink.manifest();
        long bytes =
            (long) (manifest.tokens() - sink.firstToken())
                * manifest.layout().layers()
                * manifest.layout().tokenBytes();
        last = new Transfer(bytes, (System.nanoTime() - start) / 1e9);
      }
      sink.end(error);
    }
  }
}
