package dev.halcyon.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.DTypeChoice;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.model.Fixture;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** With activations of half precision every family stays near the float32 values. */
@Tag("gpu")
class CudaHalfPrecisionTest {

  static Stream<Arguments> settings() {
    return Fixture.NAMES.stream()
        .flatMap(
            name ->
                Stream.of(DTypeChoice.F16, DTypeChoice.BF16).map(type -> Arguments.of(name, type)));
  }

  /**
   * The error of all of a prompt's logits together, as part of their size. A rounding to bfloat16
   * is off by 2^-9 at most, one to float16 by 2^-12; the few layers of these models round some tens
   * of times, in directions of their own.
   */
  @ParameterizedTest
  @MethodSource("settings")
  void logitsAreNearTheFloat32Reference(String name, DTypeChoice type) {
    double bound = type == DTypeChoice.BF16 ? 0.02 : 0.0025;
    SamplingParams params =
        SamplingParams.builder()
            .temperature(0f)
            .maxTokens(2)
            .ignoreEos(true)
            .returnContextLogits(true)
            .build();
    try (Engine engine =
        Engine.builder()
            .model(Fixture.directory(name))
            .backend(BackendChoice.CUDA)
            .dtype(type)
            .maxBatchTokens(64)
            .kvCacheTokens(2048)
            .build()) {
      List<Fixture.Case> cases = Fixture.open(name).cases();
      List<GenerationRequest> requests = new ArrayList<>();
      cases.forEach(one -> requests.add(GenerationRequest.of(one.promptIds(), params)));
      List<GenerationResult> results = engine.generate(requests);
      for (int i = 0; i < cases.size(); i++) {
        try (GenerationResult result = results.get(i)) {
          double error = relativeError(result.contextLogits(), cases.get(i).logits());
          assertThat(error)
              .as("prompt of %d tokens", cases.get(i).promptIds().length)
              .isBetween(0.0, bound);
        }
      }
    }
  }

  private static double relativeError(LogitsView got, float[][] expected) {
    double difference = 0;
    double size = 0;
    float[] row = new float[got.vocabSize()];
    for (int r = 0; r < expected.length; r++) {
      got.copyRow(r, row);
      for (int i = 0; i < row.length; i++) {
        difference += Math.pow((double) row[i] - expected[r][i], 2);
        size += Math.pow(expected[r][i], 2);
      }
    }
    return Math.sqrt(difference / size);
  }
}
