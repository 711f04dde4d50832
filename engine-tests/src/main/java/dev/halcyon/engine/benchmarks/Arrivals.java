package dev.halcyon.engine.benchmarks;

import dev.halcyon.engine.GenerationDelta;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Flow;

/** Notes when each token came. */
final class Arrivals implements Flow.Subscriber<GenerationDelta> {

  private final List<Long> times = new ArrayList<>();
  private final CompletableFuture<Void> done = new CompletableFuture<>();

  @Override
  public void onSubscribe(Flow.Subscription subscription) {
    subscription.request(Long.MAX_VALUE);
  }

  @Override
  public void onNext(GenerationDelta delta) {
    long now = System.nanoTime();
    delta.tokenIds().forEach(id -> times.add(now));
  }

  @Override
  public void onError(Throwable error) {
    done.completeExceptionally(error);
  }

  @Override
  public void onComplete() {
    done.complete(null);
  }

  long[] await(int expected) {
    done.join();
    if (times.size() != expected) {
      throw new IllegalStateException(
          "a request gave " + times.size() + " tokens, expected " + expected);
    }
    return times.stream().mapToLong(Long::longValue).toArray();
  }
}
