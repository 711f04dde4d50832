package dev.halcyon.engine.disagg.server;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;

/** Timers of what a client waits for, all with the same buckets: 10 ms to a minute. */
public final class LatencyTimers {

  private LatencyTimers() {}

  /** The timer of a name. */
  public static Timer of(String name, MeterRegistry registry) {
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
