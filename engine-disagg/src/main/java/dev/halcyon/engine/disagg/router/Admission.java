package dev.halcyon.engine.disagg.router;

import dev.halcyon.engine.disagg.server.ApiException;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.Set;

/**
 * Lets a bounded number of requests run, and a bounded number wait for their turn, first come first
 * served. Safe for use by several threads.
 */
final class Admission {

  private final int maxRunning;
  private final int maxWaiting;
  private final Set<Ticket> waiting = new LinkedHashSet<>();
  private int running;

  Admission(int maxRunning, int maxWaiting) {
    this.maxRunning = maxRunning;
    this.maxWaiting = maxWaiting;
  }

  /** A request's place. */
  final class Ticket {

    private final Runnable start;
    private boolean left;

    private Ticket(Runnable start) {
      this.start = start;
    }

    /** Gives the place up, to the next that waits. Harmless when done before. */
    void leave() {
      Ticket next = null;
      synchronized (Admission.this) {
        if (left) {
          return;
        }
        left = true;
        if (!waiting.remove(this)) {
          running--;
          next = takeNext();
        }
      }
      if (next != null) {
        next.start.run();
      }
    }
  }

  /**
   * A place for one that is not started yet.
   *
   * @param start called once its turn has come, unless it has left before
   * @throws ApiException 429 if there are too many
   */
  Ticket enter(Runnable start) {
    Ticket ticket = new Ticket(start);
    synchronized (this) {
      if (running >= maxRunning && waiting.size() >= maxWaiting) {
        throw ApiException.queueFull(
            "The router has as many requests as it takes (" + maxRunning + " running)");
      }
      waiting.add(ticket);
    }
    return ticket;
  }

  /** Starts those whose turn it is. */
  void proceed() {
    Ticket next;
    do {
      synchronized (this) {
        next = takeNext();
      }
      if (next != null) {
        next.start.run();
      }
    } while (next != null);
  }

  synchronized int running() {
    return running;
  }

  synchronized int waiting() {
    return waiting.size();
  }

  private Ticket takeNext() {
    if (running >= maxRunning || waiting.isEmpty()) {
      return null;
    }
    Iterator<Ticket> all = waiting.iterator();
    Ticket next = all.next();
    all.remove();
    running++;
    return next;
  }
}
