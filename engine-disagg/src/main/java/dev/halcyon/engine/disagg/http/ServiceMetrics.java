package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.RequestTiming;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Counts calls, connections and how long requests took. */
final class ServiceMetrics {

  private final MeterRegistry registry;
  private final AtomicInteger connections = new AtomicInteger();
  private final AtomicInteger calls = new AtomicInteger();
  private final Counter cutOff;
  private final Timer queueTime;
  private final Timer firstToken;
  private final Timer total;

  ServiceMetrics(MeterRegistry registry) {
    this.registry = registry;
    Gauge.builder("halcyon.http.connections", connections, AtomicInteger::get).register(registry);
    Gauge.builder("halcyon.http.calls", calls, AtomicInteger::get).register(registry);
    cutOff = Counter.builder("halcyon.http.cut.off").register(registry);
    queueTime = histogram("halcyon.request.queue");
    firstToken = histogram("halcyon.request.first.token");
    total = histogram("halcyon.request");
  }

  void connections(int now) {
    connections.set(now);
  }

  void callBegan() {
    calls.incrementAndGet();
  }

  void callEnded(String path, String status, long nanos) {
    calls.decrementAndGet();
    Timer.builder("halcyon.http.requests")
        .tag("path", path)
        .tag("status", status)
        .register(registry)
        .record(nanos, TimeUnit.NANOSECONDS);
  }

  void cutOff() {
    cutOff.increment();
  }

  /** Notes how long a request of the engine took. */
  void requestEnded(RequestTiming timing) {
    queueTime.record(timing.queueTime());
    total.record(timing.total());
    if (timing.timeToFirstToken() != null) {
      firstToken.record(timing.timeToFirstToken());
    }
  }

  private Timer histogram(String name) {
    return Timer.builder(name)
        .serviceLevelObjectives(
            Duration.ofMillis(10),
            Duration.ofMillis(50),
            Duration.ofMillis(100),
            Duration.ofMillis(250),
            Duration.ofMillis(500),
            Duration.ofSeconds(1),
            Duration.ofMillis(2500),
            Duration.ofSeconds(5),
            Duration.ofSeconds(10),
            Duration.ofSeconds(30),
            Duration.ofSeconds(60))
        .register(registry);
  }
}
