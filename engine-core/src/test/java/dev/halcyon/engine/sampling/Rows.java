package dev.halcyon.engine.sampling;

import dev.halcyon.engine.LogitsProcessor;
import java.util.Map;
import java.util.Set;

/** Rows to sample, for tests: neutral settings at temperature 1, changed one by one. */
final class Rows {

  float temperature = 1;
  int topK = 0;
  float topP = 1;
  float minP = 0;
  float repetition = 1;
  float presence = 0;
  float frequency = 0;
  Map<Integer, Float> bias = Map.of();
  int minTokens = 0;
  Set<Integer> endIds = Set.of();
  LogitsProcessor processor = null;
  int[] prompt = {};
  int[] generated = {};
  int sampleIndex = 0;
  int position = 0;
  long seed = 0;
  int logprobs = -1;
  boolean copyLogits = false;

  static Rows greedy() {
    Rows rows = new Rows();
    rows.temperature = 0;
    return rows;
  }

  SamplingSettings settings() {
    return new SamplingSettings(
        temperature,
        topK,
        topP,
        minP,
        repetition,
        presence,
        frequency,
        bias,
        minTokens,
        endIds,
        processor);
  }

  SamplingRow row() {
    return new SamplingRow(
        0, settings(), history(), sampleIndex, position, seed, logprobs, copyLogits);
  }

  SampledToken sample(float... logits) {
    return new HostSampler().sample(logits.clone(), row());
  }

  private TokenHistory history() {
    int[] first = prompt;
    int[] second = generated;
    return new TokenHistory() {
      @Override
      public int size() {
        return first.length + second.length;
      }

      @Override
      public int promptLength() {
        return first.length;
      }

      @Override
      public int token(int index) {
        return index < first.length ? first[index] : second[index - first.length];
      }
    };
  }
}
