package dev.halcyon.engine.benchmarks;

import dev.halcyon.engine.Engine;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.SamplingParams;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;

/** Times the engine through its public API, as a service would use it. */
final class EngineMeasurement {

  private final Engine engine;
  private final SplittableRandom random = new SplittableRandom(1);

  EngineMeasurement(Engine engine) {
    this.engine = engine;
  }

  /**
   * Tokens a second over a batch of equal greedy requests while all of them decode; the best of
   * several runs.
   */
  double decode(int batch, int promptTokens, int generatedTokens, int runs) {
    double best = 0;
    for (int run = 0; run < runs; run++) {
      best = Math.max(best, decode(batch, promptTokens, generatedTokens));
    }
    return best;
  }

  private double decode(int batch, int promptTokens, int generatedTokens) {
    SamplingParams params = greedy(generatedTokens);
    List<Arrivals> arrivals = new ArrayList<>();
    for (int i = 0; i < batch; i++) {
      GenerationHandle handle = engine.submit(GenerationRequest.of(prompt(promptTokens), params));
      Arrivals subscriber = new Arrivals();
      handle.deltas().subscribe(subscriber);
      arrivals.add(subscriber);
    }
    List<long[]> times = new ArrayList<>();
    for (Arrivals request : arrivals) {
      times.add(request.await(generatedTokens));
    }
    return SteadyRate.of(times);
  }

  /** Prompt tokens a second, from submission to the first token of the best of several runs. */
  double prefill(int promptTokens, int runs) {
    double best = 0;
    for (int run = 0; run < runs; run++) {
      try (GenerationResult result =
          engine.submit(GenerationRequest.of(prompt(promptTokens), greedy(1))).await()) {
        if (result.outputs().get(0).finishReason() != FinishReason.LENGTH) {
          throw new IllegalStateException("the prefill request did not run to its length");
        }
        double seconds = result.timing().timeToFirstToken().toNanos() / 1e9;
        best = Math.max(best, promptTokens / seconds);
      }
    }
    return best;
  }

  static SamplingParams greedy(int tokens) {
    return SamplingParams.builder().temperature(0f).maxTokens(tokens).ignoreEos(true).build();
  }

  /** A prompt of letters, different each time: nothing may come from a cache of prefixes. */
  int[] prompt(int tokens) {
    return random
        .ints(tokens, 0, BenchmarkVocabulary.LETTERS)
        .map(letter -> BenchmarkVocabulary.FIRST_LETTER + letter)
        .toArray();
  }
}
