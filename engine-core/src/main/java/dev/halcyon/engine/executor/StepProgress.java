package dev.halcyon.engine.executor;

import dev.halcyon.engine.kvcache.BlockTable;
import dev.halcyon.engine.transfer.KvProgress;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.IntConsumer;

/**
 * Says of a step that is under way which layers of prompts on offer can be read: the runner tells
 * of each layer as it is queued, and the cache says when it is written, on the executor's thread or
 * on another one. Once this is closed no word of the cache counts any more, so that the executor
 * may do with sequences and their blocks what it likes.
 */
final class StepProgress implements IntConsumer, AutoCloseable {

  private final List<Part> offered;
  private final Consumer<Runnable> whenWritten;

  /** Guarded by this. */
  private boolean closed;

  /**
   * What the step computes of a prompt on offer.
   *
   * @param table the sequence's blocks
   * @param start position of the first token
   * @param end behind the last one
   */
  record Part(GrowingPrompt prompt, BlockTable table, int start, int end) {}

  /**
   * @param offered what the step computes of prompts on offer
   * @param whenWritten runs what it gets once all that was queued up to now is written
   */
  StepProgress(List<Part> offered, Consumer<Runnable> whenWritten) {
    this.offered = offered;
    this.whenWritten = whenWritten;
  }

  /** Writing a layer's keys and values is queued. */
  @Override
  public void accept(int layer) {
    if (!offered.isEmpty()) {
      whenWritten.accept(() -> written(layer));
    }
  }

  private void written(int layer) {
    if (reach(layer)) {
      // Not under the lock: transports may read at once, on this thread.
      offered.forEach(part -> part.prompt.tell());
    }
  }

  private synchronized boolean reach(int layer) {
    if (!closed) {
      offered.forEach(
          part -> part.prompt.reach(part.table, new KvProgress(part.start, layer + 1, part.end)));
    }
    return !closed;
  }

  @Override
  public synchronized void close() {
    closed = true;
  }
}
