package dev.halcyon.engine.executor;

import dev.halcyon.engine.GenerationDelta;
import java.util.Objects;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.Flow;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * One request's deltas, kept until its subscriber takes them. The executor's thread only adds to a
 * queue; signals are sent from the delivery executor, one after the other, so that a slow
 * subscriber holds up nobody else.
 */
final class DeltaPublisher implements Flow.Publisher<GenerationDelta> {

  private final Executor delivery;
  private final ConcurrentLinkedQueue<GenerationDelta> queue = new ConcurrentLinkedQueue<>();
  private final AtomicBoolean taken = new AtomicBoolean();
  private final AtomicInteger signals = new AtomicInteger();
  private final AtomicLong demand = new AtomicLong();
  private volatile Flow.Subscriber<? super GenerationDelta> subscriber;
  private volatile boolean ended;
  private volatile boolean cancelled;
  private volatile Throwable failure;
  private volatile IllegalArgumentException badRequest;

  DeltaPublisher(Executor delivery) {
    this.delivery = delivery;
  }

  /** Adds a delta. Called by the executor's thread alone. */
  void publish(GenerationDelta delta) {
    if (!cancelled) {
      queue.add(delta);
      signal();
    }
  }

  /** Ends the deltas after those published; {@code error} is null for a good end. */
  void end(Throwable error) {
    failure = error;
    ended = true;
    signal();
  }

  @Override
  public void subscribe(Flow.Subscriber<? super GenerationDelta> newSubscriber) {
    Objects.requireNonNull(newSubscriber, "subscriber");
    if (!taken.compareAndSet(false, true)) {
      newSubscriber.onSubscribe(new RefusedSubscription());
      newSubscriber.onError(
          new IllegalStateException("these deltas have a subscriber already; they allow one"));
      return;
    }
    newSubscriber.onSubscribe(new DeltaSubscription());
    subscriber = newSubscriber;
    signal();
  }

  /**
   * Runs the drain on the delivery executor, unless it runs already: then it goes round once more.
   */
  private void signal() {
    if (subscriber != null && signals.getAndIncrement() == 0) {
      delivery.execute(this::drain);
    }
  }

  private void drain() {
    int seen = signals.get();
    do {
      if (!cancelled) {
        deliver();
      }
      if (cancelled) {
        queue.clear();
      }
      seen = signals.addAndGet(-seen);
    } while (seen != 0);
  }

  private void deliver() {
    Flow.Subscriber<? super GenerationDelta> target = subscriber;
    try {
      while (!cancelled) {
        if (badRequest != null) {
          cancelled = true;
          target.onError(badRequest);
          return;
        }
        boolean last = ended;
        GenerationDelta next = demand.get() > 0 ? queue.poll() : null;
        if (next != null) {
          if (demand.get() != Long.MAX_VALUE) {
            demand.decrementAndGet();
          }
          target.onNext(next);
        } else if (last && queue.isEmpty()) {
          cancelled = true;
          finish(target);
        } else {
          return;
        }
      }
    } catch (RuntimeException | Error e) {
      // The rule for subscribers that throw: they count as cancelled.
      cancelled = true;
    }
  }

  private void finish(Flow.Subscriber<? super GenerationDelta> target) {
    if (failure == null) {
      target.onComplete();
    } else {
      target.onError(failure);
    }
  }

  private final class DeltaSubscription implements Flow.Subscription {

    @Override
    public void request(long n) {
      if (n <= 0) {
        badRequest = new IllegalArgumentException("request must ask for at least 1, got " + n);
      } else {
        demand.accumulateAndGet(n, (a, b) -> a + b < 0 ? Long.MAX_VALUE : a + b);
      }
      signal();
    }

    @Override
    public void cancel() {
      cancelled = true;
      signal();
    }
  }

  private static final class RefusedSubscription implements Flow.Subscription {

    @Override
    public void request(long n) {
      // Nothing will come.
    }

    @Override
    public void cancel() {
      // Nothing is held.
    }
  }
}
