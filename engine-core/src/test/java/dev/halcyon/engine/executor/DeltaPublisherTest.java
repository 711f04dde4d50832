package dev.halcyon.engine.executor;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.GenerationDelta;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** The rules of Flow, on deltas. */
class DeltaPublisherTest {

  private static GenerationDelta delta(int number) {
    return new GenerationDelta(number, "", List.of(), null, null, null, null, null);
  }

  /** Notes signals as text, and asks for {@code first} deltas at the start. */
  private static final class Recorder implements Flow.Subscriber<GenerationDelta> {

    private final List<String> signals = Collections.synchronizedList(new ArrayList<>());
    private final long first;
    private Flow.Subscription subscription;

    Recorder(long first) {
      this.first = first;
    }

    @Override
    public void onSubscribe(Flow.Subscription newSubscription) {
      subscription = newSubscription;
      if (first != 0) {
        newSubscription.request(first);
      }
    }

    @Override
    public void onNext(GenerationDelta delta) {
      signals.add("next " + delta.index());
    }

    @Override
    public void onError(Throwable error) {
      signals.add("error " + error.getClass().getSimpleName());
    }

    @Override
    public void onComplete() {
      signals.add("complete");
    }
  }

  @Test
  void deliversAsMuchAsIsAskedForInOrder() {
    DeltaPublisher publisher = new DeltaPublisher(Runnable::run);
    publisher.publish(delta(0));
    publisher.publish(delta(1));
    Recorder recorder = new Recorder(1);
    publisher.subscribe(recorder);
    assertThat(recorder.signals).containsExactly("next 0");
    publisher.publish(delta(2));
    publisher.end(null);
    assertThat(recorder.signals).containsExactly("next 0");
    recorder.subscription.request(1);
    recorder.subscription.request(Long.MAX_VALUE);
    assertThat(recorder.signals).containsExactly("next 0", "next 1", "next 2", "complete");
    recorder.subscription.request(1);
    assertThat(recorder.signals).hasSize(4);
  }

  @Test
  void endsWithoutDemandWhenNothingIsLeft() {
    DeltaPublisher publisher = new DeltaPublisher(Runnable::run);
    publisher.end(new IllegalStateException());
    Recorder recorder = new Recorder(0);
    publisher.subscribe(recorder);
    assertThat(recorder.signals).containsExactly("error IllegalStateException");
  }

  @Test
  void aWrongDemandIsAnError() {
    DeltaPublisher publisher = new DeltaPublisher(Runnable::run);
    publisher.publish(delta(0));
    Recorder recorder = new Recorder(-1);
    publisher.subscribe(recorder);
    publisher.end(null);
    assertThat(recorder.signals).containsExactly("error IllegalArgumentException");
  }

  @Test
  void nothingComesAfterCancelling() {
    DeltaPublisher publisher = new DeltaPublisher(Runnable::run);
    Recorder recorder = new Recorder(5);
    publisher.subscribe(recorder);
    publisher.publish(delta(0));
    recorder.subscription.cancel();
    publisher.publish(delta(1));
    publisher.end(null);
    assertThat(recorder.signals).containsExactly("next 0");
  }

  @Test
  void aSecondSubscriberIsRefused() {
    DeltaPublisher publisher = new DeltaPublisher(Runnable::run);
    publisher.subscribe(new Recorder(1));
    Recorder second = new Recorder(1);
    publisher.subscribe(second);
    assertThat(second.signals).containsExactly("error IllegalStateException");
  }

  @Test
  void losesNothingBetweenThreads() throws Exception {
    ExecutorService delivery = Executors.newCachedThreadPool();
    for (int round = 0; round < 50; round++) {
      DeltaPublisher publisher = new DeltaPublisher(delivery);
      Recorder recorder = new Recorder(3);
      Thread asker =
          new Thread(
              () -> {
                publisher.subscribe(recorder);
                for (int i = 0; i < 1000; i++) {
                  recorder.subscription.request(1);
                }
              });
      asker.start();
      for (int i = 0; i < 1000; i++) {
        publisher.publish(delta(i));
      }
      publisher.end(null);
      asker.join();
      for (int i = 0; i < 1000 && !done(recorder); i++) {
        Thread.sleep(1);
      }
      assertThat(recorder.signals).hasSize(1001).endsWith("complete");
      for (int i = 0; i < 1000; i++) {
        assertThat(recorder.signals.get(i)).isEqualTo("next " + i);
      }
    }
    delivery.shutdown();
    assertThat(delivery.awaitTermination(5, TimeUnit.SECONDS)).isTrue();
  }

  private static boolean done(Recorder recorder) {
    int size = recorder.signals.size();
    return size == 1001;
  }
}
