package dev.halcyon.engine;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.Objects;
import java.util.function.ToDoubleFunction;

/**
 * Publishes an engine's {@link EngineMetrics} to a Micrometer registry. Micrometer is an optional
 * dependency: an application that does not use this class need not have it.
 */
public final class EngineMeterBinder implements MeterBinder {

  private final Engine engine;
  private final Tags tags;

  public EngineMeterBinder(Engine engine) {
    this(engine, Tags.empty());
  }

  /**
   * @param tags put on every meter, to tell engines apart
   */
  public EngineMeterBinder(Engine engine, Tags tags) {
    this.engine = Objects.requireNonNull(engine, "engine");
    this.tags = Objects.requireNonNull(tags, "tags");
  }

  @Override
  public void bindTo(MeterRegistry registry) {
    gauge(registry, "sequences.running", EngineMetrics::runningSequences);
    gauge(registry, "sequences.waiting", EngineMetrics::waitingSequences);
    gauge(registry, "kv.blocks.total", EngineMetrics::totalBlocks);
    gauge(registry, "kv.blocks.free", EngineMetrics::freeBlocks);
    gauge(registry, "tokens.per.second", EngineMetrics::tokensPerSecond);
    gauge(registry, "device.memory.used", EngineMetrics::deviceMemoryUsed);
    gauge(registry, "device.memory.weights", metrics -> metrics.deviceMemory().weights());
    gauge(registry, "device.memory.workspace", metrics -> metrics.deviceMemory().workspace());
    gauge(registry, "device.memory.kv.cache", metrics -> metrics.deviceMemory().kvCache());
    gauge(registry, "device.memory.results", metrics -> metrics.deviceMemory().results());
    gauge(registry, "device.memory.peak", metrics -> metrics.deviceMemory().peak());
    gauge(registry, "host.memory.used", EngineMetrics::hostMemoryUsed);
    gauge(registry, "prompts.pinned", EngineMetrics::pinnedPrompts);
    gauge(registry, "prompts.receiving", EngineMetrics::receivingPrompts);
    counter(registry, "steps", tags, EngineMetrics::steps);
    counter(registry, "tokens.prompt", tags, EngineMetrics::promptTokens);
    counter(registry, "tokens.reused", tags, EngineMetrics::reusedTokens);
    counter(registry, "tokens.generated", tags, EngineMetrics::generatedTokens);
    counter(registry, "pauses", tags, EngineMetrics::pauses);
    for (FinishReason reason : FinishReason.values()) {
      counter(
          registry,
          "outputs.finished",
          tags.and("reason", reason.name()),
          metrics -> metrics.finished().getOrDefault(reason, 0L));
    }
  }

  private void gauge(MeterRegistry registry, String name, ToDoubleFunction<EngineMetrics> value) {
    Gauge.builder("halcyon." + name, engine, e -> value.applyAsDouble(e.metrics()))
        .tags(tags)
        .register(registry);
  }

  private void counter(
      MeterRegistry registry, String name, Tags tags, ToDoubleFunction<EngineMetrics> value) {
    FunctionCounter.builder("halcyon." + name, engine, e -> value.applyAsDouble(e.metrics()))
        .tags(tags)
        .register(registry);
  }
}
