package dev.halcyon.engine;

import static org.assertj.core.api.Assertions.assertThat;

import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a monitoring system sees of an engine. */
class EngineMeterBinderTest {

  @TempDir Path directory;

  @Test
  void metersFollowTheEngine() {
    SimpleMeterRegistry registry = new SimpleMeterRegistry();
    SamplingParams params =
        SamplingParams.builder().temperature(0f).maxTokens(5).ignoreEos(true).build();
    try (Engine engine =
        Engine.builder()
            .model(TinyCheckpoint.write(directory.resolve("tiny")))
            .kvCacheTokens(160)
            .build()) {
      new EngineMeterBinder(engine, Tags.of("model", "tiny")).bindTo(registry);
      int[] prompt = new int[40];
      engine.generate(GenerationRequest.of(prompt, params));
      engine.generate(GenerationRequest.of(prompt, params));
      assertThat(count(registry, "halcyon.tokens.generated")).isEqualTo(10);
      assertThat(count(registry, "halcyon.tokens.prompt")).isEqualTo(80);
      // Two whole blocks of 16 tokens.
      assertThat(count(registry, "halcyon.tokens.reused")).isEqualTo(32);
      assertThat(
              registry
                  .get("halcyon.outputs.finished")
                  .tag("reason", "LENGTH")
                  .functionCounter()
                  .count())
          .isEqualTo(2);
      assertThat(registry.get("halcyon.kv.blocks.total").tag("model", "tiny").gauge().value())
          .isEqualTo(10);
      assertThat(registry.get("halcyon.device.memory.used").gauge().value()).isPositive();
    }
    assertThat(registry.get("halcyon.device.memory.used").gauge().value()).isZero();
  }

  private static double count(SimpleMeterRegistry registry, String name) {
    return registry.get(name).functionCounter().count();
  }
}
