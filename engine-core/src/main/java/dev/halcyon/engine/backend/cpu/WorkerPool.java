package dev.halcyon.engine.backend.cpu;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/**
 * Fork and join with little latency: one owner thread calls {@link #run}, which it and the pool's
 * own daemon threads work off together. Tasks are handed out one at a time, so a slow thread delays
 * nobody by more than one task. Idle threads spin for some microseconds, as the next operation of a
 * layer follows at once, then park.
 */
final class WorkerPool implements AutoCloseable {

  /** A number of independent pieces of work. */
  interface Task {
    /**
     * @param index which piece, from 0
     * @param worker who does it, from 0 and below {@link #threads()}: for scratch memory
     */
    void run(int index, int worker);
  }

  private static final long SPIN_NANOS = 50_000;

  private final Worker[] workers;
  private volatile Job current;
  private volatile boolean closed;

  /**
   * @param threads how many work, the caller included
   */
  WorkerPool(int threads) {
    if (threads < 1) {
      throw new IllegalArgumentException("threads must be at least 1, is " + threads);
    }
    workers = new Worker[threads - 1];
    for (int i = 0; i < workers.length; i++) {
      workers[i] = new Worker(i + 1);
    }
    for (Worker worker : workers) {
      worker.thread.start();
    }
  }

  int threads() {
    return workers.length + 1;
  }

  /** Whether a thread is one of the workers. */
  boolean owns(Thread thread) {
    for (Worker worker : workers) {
      if (worker.thread == thread) {
        return true;
      }
    }
    return false;
  }

  /**
   * Runs task(0) to task(count - 1), in any order and place, and returns when all are done. When
   * some throw, the first failure is thrown here and pieces that had not begun are left out.
   */
  void run(int count, Task task) {
    if (closed) {
      throw new IllegalStateException("The worker pool is closed");
    }
    if (count <= 1 || workers.length == 0) {
      for (int i = 0; i < count; i++) {
        task.run(i, 0);
      }
      return;
    }
    Job job = new Job(count, task, Thread.currentThread());
    current = job;
    int helpers = Math.min(workers.length, count - 1);
    for (int i = 0; i < helpers; i++) {
      workers[i].wake();
    }
    job.work(0);
    job.await();
    // Nothing of a finished job, such as the buffers that its task uses, is kept alive: idle
    // workers still know the job, to tell it from the next one.
    job.task = null;
    current = null;
    job.rethrow();
  }

  @Override
  public void close() {
    closed = true;
    boolean interrupted = false;
    for (Worker worker : workers) {
      LockSupport.unpark(worker.thread);
    }
    for (Worker worker : workers) {
      while (worker.thread.isAlive()) {
        try {
          worker.thread.join();
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  /** One call of run(). */
  private static final class Job {
    private final int count;
    private final Thread owner;
    private final AtomicInteger next = new AtomicInteger();
    private final AtomicInteger done = new AtomicInteger();
    private volatile Throwable failure;
    private volatile boolean ownerParked;

    /** Read only by those who have taken a piece, so never once all are done. */
    private Task task;

    Job(int count, Task task, Thread owner) {
      this.count = count;
      this.task = task;
      this.owner = owner;
    }

    /** Takes pieces until none is left. */
    void work(int worker) {
      while (true) {
        int index = next.getAndIncrement();
        if (index >= count) {
          return;
        }
        try {
          if (failure == null) {
            task.run(index, worker);
          }
        } catch (Throwable t) {
          fail(t);
        } finally {
          if (done.incrementAndGet() == count && ownerParked) {
            LockSupport.unpark(owner);
          }
        }
      }
    }

    private synchronized void fail(Throwable t) {
      if (failure == null) {
        failure = t;
      } else if (failure != t) {
        failure.addSuppressed(t);
      }
    }

    void await() {
      long start = System.nanoTime();
      boolean interrupted = false;
      while (done.get() < count) {
        if (System.nanoTime() - start < SPIN_NANOS) {
          Thread.onSpinWait();
        } else {
          ownerParked = true;
          if (done.get() < count) {
            LockSupport.park(this);
            interrupted |= Thread.interrupted();
          }
        }
      }
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }

    void rethrow() {
      Throwable t = failure;
      if (t instanceof RuntimeException e) {
        throw e;
      }
      if (t instanceof Error e) {
        throw e;
      }
      if (t != null) {
        throw new IllegalStateException(t);
      }
    }
  }

  /** One of the pool's own threads. */
  private final class Worker implements Runnable {
    private final int index;
    private final Thread thread;
    private volatile boolean parked;

    Worker(int index) {
      this.index = index;
      this.thread = new Thread(this, "halcyon-cpu-" + index);
      thread.setDaemon(true);
    }

    void wake() {
      if (parked) {
        LockSupport.unpark(thread);
      }
    }

    @Override
    public void run() {
      Job last = null;
      while (true) {
        Job job = awaitJob(last);
        if (job == null) {
          return;
        }
        job.work(index);
        last = job;
      }
    }

    /** Waits for a job other than {@code last}; null when the pool closes. */
    private Job awaitJob(Job last) {
      long start = System.nanoTime();
      while (!closed) {
        Job job = current;
        if (job != null && job != last) {
          return job;
        }
        if (System.nanoTime() - start < SPIN_NANOS) {
          Thread.onSpinWait();
          continue;
        }
        parked = true;
        job = current;
        // Looked at again after the flag is up: either we see the job, or run() sees the flag.
        if (!closed && (job == null || job == last)) {
          last = null;
          LockSupport.park(this);
        }
        parked = false;
      }
      return null;
    }
  }
}
