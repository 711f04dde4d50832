package dev.halcyon.engine.executor;

import java.util.concurrent.ConcurrentLinkedQueue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What transports want of the executor's thread. Every task runs exactly once: on that thread while
 * it lives, on the poster's once the mailbox is closed; by then all transfers have ended, and a
 * task finds that it has nothing to do.
 */
final class TransferMailbox {

  private static final Logger LOG = LoggerFactory.getLogger(TransferMailbox.class);

  private final ConcurrentLinkedQueue<Runnable> tasks = new ConcurrentLinkedQueue<>();
  private final Runnable wake;
  private volatile boolean closed;

  /**
   * @param wake wakes the executor's thread
   */
  TransferMailbox(Runnable wake) {
    this.wake = wake;
  }

  void post(Runnable task) {
    tasks.add(task);
    if (closed) {
      run(Integer.MAX_VALUE);
    } else {
      wake.run();
    }
  }

  boolean isEmpty() {
    return tasks.isEmpty();
  }

  /** Runs up to {@code limit} tasks; a transport's failure in one of them is not the executor's. */
  void run(int limit) {
    for (int i = 0; i < limit; i++) {
      Runnable task = tasks.poll();
      if (task == null) {
        return;
      }
      try {
        task.run();
      } catch (RuntimeException e) {
        LOG.error("A KV transport failed in a callback", e);
      }
    }
  }

  void close() {
    closed = true;
    run(Integer.MAX_VALUE);
  }
}
