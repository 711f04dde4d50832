package dev.halcyon.engine.disagg.server;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Counts calls and connections, and how long calls took. */
final class ServerMetrics {

  private final MeterRegistry registry;
  private final AtomicInteger connections = new AtomicInteger();
  private final AtomicInteger calls = new AtomicInteger();
  private final Counter cutOff;

  ServerMetrics(MeterRegistry registry) {
    this.registry = registry;
    Gauge.builder("halcyon.http.connections", connections, AtomicInteger::get).register(registry);
    Gauge.builder("halcyon.http.calls", calls, AtomicInteger::get).register(registry);
    cutOff = Counter.builder("halcyon.http.cut.off").register(registry);
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
}
