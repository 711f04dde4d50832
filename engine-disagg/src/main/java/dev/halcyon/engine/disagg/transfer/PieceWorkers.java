package dev.halcyon.engine.disagg.transfer;

import io.netty.util.concurrent.DefaultThreadFactory;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * A transport's threads for what is to be done with pieces beside sending and receiving them:
 * reading them from a cache, checksums, handing them to an engine. So the next piece is made ready
 * while the one before is sent, and the last one checked while the next is received. There may be
 * none; then the connections' threads do all.
 *
 * <p>What waits is bounded by the pieces that may be on their way. A task looks first whether its
 * transfer still lives, so that those of dead ones are done at once; every task runs, also once
 * this is closed.
 */
final class PieceWorkers implements AutoCloseable {

  private static final long CLOSING_SECONDS = 4;

  /** Null where there are none. */
  private final ThreadPoolExecutor pool;

  /** Whether a thread is one of these. */
  private final ThreadLocal<Boolean> isWorker = ThreadLocal.withInitial(() -> false);

  /** A connection's thread. */
  interface ConnectionThread {

    /**
     * Runs a task there: now if it is the caller.
     *
     * @return false if the thread has ended, and the task never runs
     */
    boolean run(Runnable task);
  }

  /**
   * @param threads how many; started when they are needed
   */
  PieceWorkers(int threads) {
    this.pool = threads == 0 ? null : pool(threads);
  }

  private ThreadPoolExecutor pool(int threads) {
    DefaultThreadFactory factory = new DefaultThreadFactory("halcyon-kv-worker", true);
    return new ThreadPoolExecutor(
        threads,
        threads,
        0,
        TimeUnit.SECONDS,
        new LinkedBlockingQueue<>(),
        run ->
            factory.newThread(
                () -> {
                  isWorker.set(true);
                  run.run();
                }),
        // Closed: nothing is left to do but to free what the task holds.
        (task, closed) -> task.run());
  }

  /**
   * Has a task run by a worker, now if that is the caller; by the connection's thread if there are
   * no workers; by the caller if neither is there any more.
   */
  void execute(Runnable task, ConnectionThread connection) {
    if (pool == null) {
      if (!connection.run(task)) {
        task.run();
      }
    } else if (isWorker.get()) {
      task.run();
    } else {
      pool.execute(task);
    }
  }

  /** Lets what waits come to its end, and waits for the threads to end; but not for long. */
  @Override
  public void close() {
    if (pool == null) {
      return;
    }
    pool.shutdown();
    try {
      pool.awaitTermination(CLOSING_SECONDS, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
