package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.RequestTiming;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;

/** Notes how long requests took. */
final class ServiceMetrics {

  private final MeterRegistry registry;
  private final Timer queueTime;
  private final Timer firstToken;
  private final Timer total;

  ServiceMetrics(MeterRegistry registry) {
    this.registry = registry;
    queueTime = histogram("halcyon.request.queue");
    firstToken = histogram("halcyon.request.first.token");
    total = histogram("halcyon.request");
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
