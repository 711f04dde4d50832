package dev.halcyon.engine.sampling;

import dev.halcyon.engine.LogitsProcessor;
import java.util.Map;
import java.util.Set;

/** Rows to sample, for tests: neutral settings at temperature 1, changed one by one. */
public final class Rows {

  public float temperature = 1;
  public int topK = 0;
  public float topP = 1;
  public float minP = 0;
  public float repetition = 1;
  public float presence = 0;
  public float frequency = 0;
  public Map<Integer, Float> bias = Map.of();
  public int minTokens = 0;
  public Set<Integer> endIds = Set.of();
  public LogitsProcessor processor = null;
  public int[] prompt = {};
  public int[] generated = {};
  public int sampleIndex = 0;
  public int position = 0;
  public long seed = 0;
  public int logprobs = -1;
  public boolean copyLogits = false;

  public static Rows greedy() {
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
    return row(0);
  }

  /** An entry that reads a row. */
  public SamplingRow row(int index) {
    return new SamplingRow(
        index, settings(), history(), sampleIndex, position, seed, logprobs, copyLogits);
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
