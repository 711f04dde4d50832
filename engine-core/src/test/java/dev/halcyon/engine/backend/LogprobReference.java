package dev.halcyon.engine.backend;

import java.util.Comparator;
import java.util.stream.IntStream;

/** The logprobs and ranks of one row of logits, by their definitions in double precision. */
final class LogprobReference {

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
}
