package dev.halcyon.engine.benchmarks;

import java.util.List;

/**
 * What is run, the same for every engine.
 *
 * @param promptTokens prompt of a decode run
 * @param generatedTokens tokens that each request of a decode run generates, at least 2
 * @param batches requests at once, one decode run each
 * @param prefillTokens prompt of the prefill run
 */
record Workload(int promptTokens, int generatedTokens, List<Integer> batches, int prefillTokens) {

  Workload {
    if (promptTokens < 1 || generatedTokens < 2 || prefillTokens < 1) {
      throw new IllegalArgumentException(
          "a workload needs prompts of at least 1 token and at least 2 generated tokens");
    }
    batches = List.copyOf(batches);
  }
}
