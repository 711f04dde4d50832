package dev.halcyon.engine.disagg;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.disagg.transfer.InProcessTransport;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvSink;
import dev.halcyon.engine.transfer.KvSource;
import dev.halcyon.engine.transfer.KvTransport;
import dev.halcyon.engine.transfer.KvView;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;

/**
 * Counts what goes through a transport, and holds it back while it is shut. Prompts go in pieces
 * through it, unless it is {@link #direct}.
 */
public final class WatchedTransport implements KvTransport {

  private final KvTransport inner;
  private final boolean direct;
  private final Queue<Runnable> held = new ArrayDeque<>();
  private boolean shut;

  /** The first token that each fetch wanted. */
  public final List<Integer> firstTokens = new CopyOnWriteArrayList<>();

  /** Ends that sources heard of; null stands for a good one. */
  final List<String> sourceEnds = new CopyOnWriteArrayList<>();

  public WatchedTransport(KvTransport inner) {
    this(inner, false);
  }

  private WatchedTransport(KvTransport inner, boolean direct) {
    this.inner = inner;
    this.direct = direct;
  }

  /** One through which engines copy from each other's caches. */
  static WatchedTransport direct() {
    return new WatchedTransport(new InProcessTransport(), true);
  }

  WatchedTransport() {
    this(new InProcessTransport());
  }

  /** From now on pieces are read, and copies begun, by nobody until {@link #open}. */
  synchronized void shut() {
    shut = true;
  }

  void open() {
    synchronized (this) {
      shut = false;
    }
    for (Runnable task = poll(); task != null; task = poll()) {
      task.run();
    }
  }

  synchronized int heldBack() {
    return held.size();
  }

  private synchronized Runnable poll() {
    return held.poll();
  }

  private void pass(Runnable task) {
    synchronized (this) {
      if (shut) {
        held.add(task);
        return;
      }
    }
    task.run();
  }

  @Override
  public KvOffer offer(KvSource source) {
    return inner.offer(
        new ForwardingSource(source) {
          @Override
          public void read(KvPiece piece, ByteBuffer to, Consumer<KvTransferException> done) {
            pass(() -> super.read(piece, to, done));
          }

          @Override
          public KvView view() {
            return direct ? super.view() : null;
          }

          @Override
          public void end(KvTransferException error) {
            sourceEnds.add(error == null ? "done" : error.reason().name());
            super.end(error);
          }
        });
  }

  @Override
  public KvFetch fetch(KvDescriptor descriptor, KvSink sink) {
    firstTokens.add(sink.firstToken());
    return inner.fetch(descriptor, direct ? new HeldSink(sink) : sink);
  }

  @Override
  public void close() {
    inner.close();
  }

  /** One that only copies, and not while this is shut. */
  private final class HeldSink extends ForwardingSink {

    HeldSink(KvSink sink) {
      super(sink);
    }

    @Override
    public void write(KvPiece piece, ByteBuffer from, Consumer<KvTransferException> done) {
      throw new AssertionError("a piece in place of a copy");
    }

    @Override
    public void copy(KvView view, Consumer<KvTransferException> done) {
      pass(() -> super.copy(view, done));
    }
  }
}
