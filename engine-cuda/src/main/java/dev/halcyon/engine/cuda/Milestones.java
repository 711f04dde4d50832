package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cudaEventRecord;
import static org.bytedeco.cuda.global.cudart.cudaEventSynchronize;
import static org.bytedeco.cuda.global.cudart.cudaStreamIsCapturing;

import dev.halcyon.engine.backend.Owned;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.bytedeco.cuda.cudart.CUevent_st;
import org.bytedeco.cuda.global.cudart;

/**
 * Does things once the device has come to where the compute stream was when they were asked for,
 * while the owner thread goes on: a thread of its own sleeps until then.
 */
final class Milestones implements AutoCloseable {

  private final CudaContext context;
  private final Owned owned = new Owned();

  /** Starts its thread with the first of them. */
  private final ExecutorService waiter =
      Executors.newSingleThreadExecutor(
          task -> {
            Thread thread = new Thread(task, "halcyon-milestones");
            thread.setDaemon(true);
            return thread;
          });

  /** Events that nobody waits for. */
  private final Queue<CUevent_st> free = new ConcurrentLinkedQueue<>();

  Milestones(CudaContext context) {
    this.context = context;
  }

  /**
   * Has something done once all is computed that was called so far. For the owner thread.
   *
   * @param then called by a thread of this, in the order of these calls; must not block. Never, if
   *     a graph is being recorded or computing fails
   */
  void whenComputed(Runnable then) {
    // What is recorded does not run, and an event would become a part of it.
    if (recording()) {
      return;
    }
    CUevent_st unused = free.poll();
    CUevent_st reached =
        unused != null
            ? unused
            : context.event(owned, cudart.cudaEventDisableTiming | cudart.cudaEventBlockingSync);
    context.check(cudaEventRecord(reached, context.compute()), "computing");
    waiter.execute(() -> await(reached, then));
  }

  private boolean recording() {
    int[] status = new int[1];
    context.check(cudaStreamIsCapturing(context.compute(), status), "computing");
    return status[0] != cudart.cudaStreamCaptureStatusNone;
  }

  private void await(CUevent_st reached, Runnable then) {
    try {
      context.enter();
      context.check(cudaEventSynchronize(reached), "computing");
    } catch (CudaException e) {
      // The owner thread hears of a lost device itself.
      return;
    }
    free.add(reached);
    then.run();
  }

  /** Waits for what is being done; all work of the compute stream is done by now. */
  @Override
  public void close() {
    waiter.shutdown();
    boolean interrupted = false;
    while (!waiter.isTerminated()) {
      try {
        waiter.awaitTermination(1, TimeUnit.MINUTES);
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
    owned.close();
  }
}
