package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.RequestTiming;
import dev.halcyon.engine.disagg.server.LatencyTimers;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;

/** Notes how long requests took. */
final class ServiceMetrics {

  private final Timer queueTime;
  private final Timer firstToken;
  private final Timer total;

  ServiceMetrics(MeterRegistry registry) {
    queueTime = LatencyTimers.of("halcyon.request.queue", registry);
    firstToken = LatencyTimers.of("halcyon.request.first.token", registry);
    total = LatencyTimers.of("halcyon.request", registry);
  }

  /** Notes how long a request of the engine took. */
  void requestEnded(RequestTiming timing) {
    queueTime.record(timing.queueTime());
    total.record(timing.total());
    if (timing.timeToFirstToken() != null) {
      firstToken.record(timing.timeToFirstToken());
    }
  }
}
