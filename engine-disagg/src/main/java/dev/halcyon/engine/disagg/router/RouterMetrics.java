package dev.halcyon.engine.disagg.router;

import dev.halcyon.engine.disagg.server.LatencyTimers;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** What a router counts. */
final class RouterMetrics {

  private final Counter retries;
  private final Counter broken;
  private final Counter told;
  private final Counter untold;
  private final Timer prefill;
  private final Timer firstByte;

  RouterMetrics(MeterRegistry registry) {
    retries = Counter.builder("halcyon.router.retries").register(registry);
    broken = Counter.builder("halcyon.router.broken").register(registry);
    told = Counter.builder("halcyon.router.cancels").tag("told", "true").register(registry);
    untold = Counter.builder("halcyon.router.cancels").tag("told", "false").register(registry);
    prefill = LatencyTimers.of("halcyon.router.prefill", registry);
    firstByte = LatencyTimers.of("halcyon.router.first.byte", registry);
  }

  static void watch(MeterRegistry registry, Admission admission, List<Node> nodes) {
    Gauge.builder("halcyon.router.running", admission, Admission::running).register(registry);
    Gauge.builder("halcyon.router.waiting", admission, Admission::waiting).register(registry);
    for (Node node : nodes) {
      Gauge.builder("halcyon.router.endpoint.up", node, each -> each.isUp() ? 1 : 0)
          .tag("role", node.role().label())
          .tag("endpoint", node.toString())
          .register(registry);
      Gauge.builder("halcyon.router.endpoint.running", node, Node::running)
          .tag("role", node.role().label())
          .tag("endpoint", node.toString())
          .register(registry);
    }
  }

  void retried() {
    retries.increment();
  }

  /** Notes an answer that broke off after it had begun. */
  void broke() {
    broken.increment();
  }

  void cancelled(boolean endpointKnows) {
    (endpointKnows ? told : untold).increment();
  }

  void prefilled(long nanos) {
    prefill.record(nanos, TimeUnit.NANOSECONDS);
  }

  void answerBegan(long nanos) {
    firstByte.record(nanos, TimeUnit.NANOSECONDS);
  }
}
