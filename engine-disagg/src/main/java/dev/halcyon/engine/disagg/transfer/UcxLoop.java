package dev.halcyon.engine.disagg.transfer;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.LockSupport;
import org.openucx.jucx.NativeLibs;
import org.openucx.jucx.UcxUtils;
import org.openucx.jucx.ucp.UcpContext;
import org.openucx.jucx.ucp.UcpParams;
import org.openucx.jucx.ucp.UcpRequest;
import org.openucx.jucx.ucp.UcpWorker;
import org.openucx.jucx.ucp.UcpWorkerParams;

/**
 * A context and a worker of UCX, and the one thread that may use them: it runs tasks, lets UCX
 * progress, and sleeps while there is nothing to do.
 */
final class UcxLoop {

  /** What a loop tells its user, on the loop's thread. */
  interface Lifecycle {

    /** UCX itself failed: what it carried is lost. */
    void failed(Throwable cause);

    /** All connections are to be closed now; what is still in flight then is waited for. */
    void closing();

    /** The worker is about to go: last of all the listener has to. */
    void ending();

    /** UCX does nothing any more, and its context is about to go. */
    void ended();
  }

  private static final Duration CLOSING = Duration.ofSeconds(2);
  private static final Duration QUIET = Duration.ofMillis(10);
  private static final long CLOSING_PAUSE_NANOS = 50_000;

  private final UcpContext context;
  private final UcpWorker worker;
  private final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();
  private final List<InFlight> inFlight = new ArrayList<>();
  private final Thread thread;
  private final Object signalLock = new Object();

  /** Guarded by signalLock: no task is taken, and the worker may be gone. */
  private boolean ended;

  private volatile boolean stopping;

  /** A request of UCX's, and what is to happen once it is complete. */
  private record InFlight(UcpRequest request, Runnable then) {}

  /**
   * @param settings UCX's own, without the prefix UCX_; they go before the environment's
   * @throws LinkageError if UCX can't be loaded
   * @throws org.openucx.jucx.UcxException if it can't be used
   */
  UcxLoop(Map<String, String> settings, Lifecycle lifecycle) {
    this.context = openContext(settings);
    UcpWorker opened = null;
    try {
      opened = context.newWorker(new UcpWorkerParams());
    } finally {
      if (opened == null) {
        context.close();
      }
    }
    this.worker = opened;
    this.thread = new Thread(() -> run(lifecycle), "halcyon-ucx");
    thread.setDaemon(true);
  }

  /** Opens and closes a context: throws as the constructor does. */
  static void probe() {
    openContext(Map.of()).close();
  }

  private static UcpContext openContext(Map<String, String> settings) {
    NativeLibs.load();
    // Bindings without their native half load, and fail at their first call.
    UcxUtils.getAddress(ByteBuffer.allocateDirect(1));
    UcpParams params = new UcpParams().requestAmFeature().requestWakeupFeature();
    settings.forEach(params::setConfig);
    return new UcpContext(params);
  }

  UcpContext context() {
    return context;
  }

  /** To be used before {@link #start}, and on the loop's thread from then on. */
  UcpWorker worker() {
    return worker;
  }

  void start() {
    thread.start();
  }

  /**
   * Runs a task on the loop's thread, after those before it. A task must not throw.
   *
   * @return false if the loop has ended, and the task never runs
   */
  boolean execute(Runnable task) {
    synchronized (signalLock) {
      if (ended) {
        return false;
      }
      tasks.add(task);
      if (Thread.currentThread() != thread) {
        worker.signal();
      }
      return true;
    }
  }

  /** As {@link #execute}, but now if the caller is the loop's thread. */
  boolean run(Runnable task) {
    if (Thread.currentThread() != thread) {
      return execute(task);
    }
    task.run();
    return true;
  }

  /** Runs something on the loop's thread once a request is complete, well or not. */
  void whenComplete(UcpRequest request, Runnable then) {
    if (isComplete(request)) {
      then.run();
    } else {
      inFlight.add(new InFlight(request, then));
    }
  }

  /** The bindings take a request's pointer away once it is complete. */
  private static boolean isComplete(UcpRequest request) {
    return request.getNativeId() == null;
  }

  private void run(Lifecycle lifecycle) {
    try {
      while (!stopping) {
        if (!turn() && tasks.isEmpty()) {
          worker.waitForEvents();
        }
      }
      // What was said last is to arrive before the connections go.
      turnUntilIdle();
    } catch (Exception | Error e) {
      lifecycle.failed(e);
    }
    try {
      lifecycle.closing();
      turnUntilIdle();
    } catch (Exception | Error e) {
      lifecycle.failed(e);
    }
    release(lifecycle);
  }

  /** Returns whether there may be more to do. */
  private boolean turn() throws Exception {
    runTasks();
    boolean progressed = worker.progress() != 0;
    // A completion may add requests.
    List<Runnable> complete = new ArrayList<>();
    for (Iterator<InFlight> each = inFlight.iterator(); each.hasNext(); ) {
      InFlight next = each.next();
      if (isComplete(next.request)) {
        each.remove();
        complete.add(next.then);
      }
    }
    complete.forEach(Runnable::run);
    return progressed || !complete.isEmpty();
  }

  private void runTasks() {
    for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
      task.run();
    }
  }

  /** Goes on until nothing is in flight, and nothing came for a moment; but not for long. */
  private void turnUntilIdle() throws Exception {
    long now = System.nanoTime();
    long deadline = now + CLOSING.toNanos();
    long quietSince = now;
    while (now < deadline && (now - quietSince < QUIET.toNanos() || !inFlight.isEmpty())) {
      boolean progressed = turn();
      if (!progressed) {
        LockSupport.parkNanos(CLOSING_PAUSE_NANOS);
      }
      now = System.nanoTime();
      quietSince = progressed ? now : quietSince;
    }
  }

  private void release(Lifecycle lifecycle) {
    synchronized (signalLock) {
      ended = true;
    }
    try {
      // Tasks find their connections closed by now, and free what they hold.
      runTasks();
    } catch (RuntimeException | Error e) {
      lifecycle.failed(e);
    }
    lifecycle.ending();
    worker.close();
    inFlight.forEach(each -> each.then.run());
    lifecycle.ended();
    context.close();
  }

  /** Ends the loop and waits for its thread; a second call waits as well. */
  void close() throws InterruptedException {
    stopping = true;
    execute(() -> {});
    if (Thread.currentThread() != thread) {
      thread.join(3 * CLOSING.toMillis());
    }
  }

  /** Frees what was opened where {@link #start} was never reached. */
  void abandon() {
    worker.close();
    context.close();
  }
}
