package dev.halcyon.engine.backend;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.logits.PromptLogprobs;
import java.util.Comparator;
import java.util.stream.IntStream;

/** The logprobs and ranks of one row of logits, by their definitions in double precision. */
final class LogprobReference {

  /** Of logprobs of size 16 at most, whose own rounding to float32 is 5e-7. */
  private static final double TOLERANCE = 2e-6;

  private final float[] logits;
  private final double normalizer;

  LogprobReference(float[] logits) {
    this.logits = logits;
    double max = Double.NEGATIVE_INFINITY;
    for (float logit : logits) {
      max = Math.max(max, logit);
    }
    double sum = 0;
    for (float logit : logits) {
      sum += Math.exp(logit - max);
    }
    this.normalizer = max + Math.log(sum);
  }

  double logprob(int id) {
    return logits[id] - normalizer;
  }

  int rank(int id) {
    int before = 0;
    for (int i = 0; i < logits.length; i++) {
      boolean first = logits[i] > logits[id] || (logits[i] == logits[id] && i < id);
      before += first ? 1 : 0;
    }
    return before + 1;
  }

  /** All ids in the order of rank. */
  int[] order() {
    // Adding 0 makes 0 of -0, which is equal as a logit.
    Comparator<Integer> descending = Comparator.comparingDouble(id -> -(logits[id] + 0.0));
    return IntStream.range(0, logits.length)
        .boxed()
        .sorted(descending.thenComparing(id -> id))
        .mapToInt(id -> id)
        .toArray();
  }

  /** Requires an entry that was reduced from this row. */
  void requireEntry(PromptLogprobs actual, int entry) {
    int target = actual.target(entry);
    if (target != PromptLogprobs.UNKNOWN) {
      requireLogprob(actual.logprob(entry), logprob(target), entry);
      assertThat(actual.rank(entry))
          .as("rank of entry " + entry)
          .isEqualTo(actual.ranked() ? rank(target) : 0);
    }
    int[] order = actual.topK() == 0 ? new int[0] : order();
    for (int i = 0; i < actual.topK(); i++) {
      assertThat(actual.topId(entry, i)).as("top " + i + " of entry " + entry).isEqualTo(order[i]);
      requireLogprob(actual.topLogprob(entry, i), logprob(order[i]), entry);
    }
  }

  private static void requireLogprob(float actual, double expected, int entry) {
    boolean equal = actual == expected || Math.abs(actual - expected) <= TOLERANCE;
    assertThat(equal).as("logprob " + actual + " of entry " + entry + ", not " + expected).isTrue();
  }
}
