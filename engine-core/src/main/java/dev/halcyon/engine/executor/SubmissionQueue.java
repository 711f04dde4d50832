package dev.halcyon.engine.executor;

import dev.halcyon.engine.EngineClosedException;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.QueueFullException;
import dev.halcyon.engine.QueueFullPolicy;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;

/**
 * What user threads hand to the executor's thread: new requests, bounded by the number that may
 * wait, and cancellations. The executor takes from it without locks and sleeps on it when idle.
 */
final class SubmissionQueue {

  private final int capacity;
  private final QueueFullPolicy policy;
  private final Semaphore places;
  private final ConcurrentLinkedQueue<ActiveRequest> requests = new ConcurrentLinkedQueue<>();
  private final ConcurrentLinkedQueue<RequestHandle> cancels = new ConcurrentLinkedQueue<>();
  private final ConcurrentLinkedQueue<Supply> supplies = new ConcurrentLinkedQueue<>();
  private final AtomicReference<RuntimeException> closed = new AtomicReference<>();
  private volatile Thread owner;

  /**
   * What a request was waiting for that was submitted before its first tokens were known.
   *
   * @param part null if they will not come
   * @param error why not, or null
   */
  record Supply(ActiveRequest request, SplitPart part, RuntimeException error) {}

  SubmissionQueue(int capacity, QueueFullPolicy policy) {
    this.capacity = capacity;
    this.policy = policy;
    this.places = new Semaphore(capacity, true);
  }

  /** The thread that sleeps on this queue. */
  void ownedBy(Thread thread) {
    owner = thread;
  }

  /**
   * Takes a place among the waiting requests.
   *
   * @throws QueueFullException if there is none and the policy is to fail
   * @throws EngineClosedException if the queue is closed, also while waiting
   */
  void acquirePlace() {
    requireOpen();
    if (policy == QueueFullPolicy.FAIL) {
      if (!places.tryAcquire()) {
        throw new QueueFullException(
            capacity
                + " requests wait already, as many as maxQueuedRequests allows; try again later");
      }
    } else {
      try {
        places.acquire();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new EngineException("Interrupted while waiting for a place in the queue", e);
      }
    }
    try {
      requireOpen();
    } catch (RuntimeException e) {
      releasePlace();
      throw e;
    }
  }

  /** Gives back the place of a request that got its first turn, ended, or never came to be. */
  void releasePlace() {
    places.release();
  }

  /**
   * Adds a request that holds a place. If the queue is closed meanwhile, it throws and the request
   * never ran.
   */
  void add(ActiveRequest request) {
    requests.add(request);
    if (closed.get() != null && requests.remove(request)) {
      throw rethrown(closed.get());
    }
    wake();
  }

  void cancel(RequestHandle handle) {
    cancels.add(handle);
    wake();
  }

  void supply(Supply supply) {
    supplies.add(supply);
    wake();
  }

  List<Supply> drainSupplies() {
    List<Supply> drained = new ArrayList<>();
    for (Supply supply = supplies.poll(); supply != null; supply = supplies.poll()) {
      drained.add(supply);
    }
    return drained;
  }

  ActiveRequest poll() {
    return requests.poll();
  }

  List<RequestHandle> drainCancels() {
    List<RequestHandle> drained = new ArrayList<>();
    for (RequestHandle handle = cancels.poll(); handle != null; handle = cancels.poll()) {
      drained.add(handle);
    }
    return drained;
  }

  boolean isEmpty() {
    return requests.isEmpty() && cancels.isEmpty() && supplies.isEmpty();
  }

  /** Refuses requests from now on, with {@code reason}, and frees those that wait for a place. */
  void close(RuntimeException reason) {
    if (closed.compareAndSet(null, reason)) {
      // Every waiter is let through once, to find the queue closed.
      places.release(Integer.MAX_VALUE / 2);
    }
    wake();
  }

  void requireOpen() {
    RuntimeException reason = closed.get();
    if (reason != null) {
      throw rethrown(reason);
    }
  }

  void wake() {
    Thread thread = owner;
    if (thread != null) {
      LockSupport.unpark(thread);
    }
  }

  /** A fresh exception for each caller, so that its stack trace is the caller's own. */
  private static RuntimeException rethrown(RuntimeException reason) {
    if (reason instanceof EngineClosedException) {
      return new EngineClosedException(reason.getMessage());
    }
    return reason;
  }
}
