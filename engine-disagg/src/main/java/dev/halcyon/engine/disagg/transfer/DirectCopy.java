package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvSink;
import dev.halcyon.engine.transfer.KvView;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The generation side of a transfer in which the sink copies everything itself, from where the
 * source has it. Safe for use by several threads.
 */
final class DirectCopy implements KvFetch {

  private final KvSink sink;
  private final Link link;
  private final KvView view;
  private final AtomicBoolean started = new AtomicBoolean();
  private final AtomicBoolean ended = new AtomicBoolean();

  /** The way to the context side. Calls must not block. */
  interface Link {

    /** Says that everything was copied, or why this side gave up. */
    void ended(KvTransferException error);
  }

  DirectCopy(KvSink sink, KvView view, Link link) {
    this.sink = sink;
    this.view = view;
    this.link = link;
  }

  /** Starts it once the source has everything; called again as long as it may not. */
  void advanced() {
    if (!view.complete()) {
      sink.progress();
    } else if (started.compareAndSet(false, true) && !ended.get()) {
      sink.copy(view, this::copied);
    }
  }

  private void copied(KvTransferException error) {
    if (ended.compareAndSet(false, true)) {
      link.ended(error);
      sink.end(error);
    }
  }

  /** The other side ended the transfer. */
  void failed(KvTransferException error) {
    if (ended.compareAndSet(false, true)) {
      sink.end(error);
    }
  }

  @Override
  public void cancel(KvTransferException why) {
    if (ended.compareAndSet(false, true)) {
      link.ended(why);
    }
  }
}
