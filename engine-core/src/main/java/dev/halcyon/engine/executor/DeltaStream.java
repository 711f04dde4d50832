package dev.halcyon.engine.executor;

import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.GenerationDelta;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.concurrent.Flow;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** Deltas as a blocking iterator: a subscriber that asks for one at a time. */
final class DeltaStream implements Iterator<GenerationDelta>, Flow.Subscriber<GenerationDelta> {

  private record Signal(GenerationDelta delta, Throwable error) {}

  private final LinkedBlockingQueue<Signal> signals = new LinkedBlockingQueue<>();
  private final Runnable cancelRequest;
  private Flow.Subscription subscription;
  private Signal next;
  private boolean ended;

  private DeltaStream(Runnable cancelRequest) {
    this.cancelRequest = cancelRequest;
  }

  /** Subscribes and gives the stream; closing it before its end runs {@code cancelRequest}. */
  static Stream<GenerationDelta> of(
      Flow.Publisher<GenerationDelta> deltas, Runnable cancelRequest) {
    DeltaStream iterator = new DeltaStream(cancelRequest);
    deltas.subscribe(iterator);
    int traits = Spliterator.ORDERED | Spliterator.NONNULL;
    return StreamSupport.stream(Spliterators.spliteratorUnknownSize(iterator, traits), false)
        .onClose(iterator::closed);
  }

  @Override
  public void onSubscribe(Flow.Subscription newSubscription) {
    subscription = newSubscription;
    newSubscription.request(1);
  }

  @Override
  public void onNext(GenerationDelta delta) {
    signals.add(new Signal(delta, null));
  }

  @Override
  public void onError(Throwable error) {
    signals.add(new Signal(null, error));
  }

  @Override
  public void onComplete() {
    signals.add(new Signal(null, null));
  }

  @Override
  public boolean hasNext() {
    if (next == null && !ended) {
      next = take();
      if (next.delta() == null) {
        ended = true;
        if (next.error() instanceof RuntimeException failure) {
          throw failure;
        } else if (next.error() != null) {
          throw new EngineException("The request failed", next.error());
        }
      }
    }
    return !ended;
  }

  @Override
  public GenerationDelta next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    GenerationDelta delta = next.delta();
    next = null;
    subscription.request(1);
    return delta;
  }

  private Signal take() {
    try {
      return signals.take();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      ended = true;
      cancelRequest.run();
      throw new EngineException(
          "Interrupted while waiting for a delta; the request is cancelled", e);
    }
  }

  private void closed() {
    if (!ended) {
      ended = true;
      subscription.cancel();
      cancelRequest.run();
    }
  }
}
