package dev.halcyon.engine.logits;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import org.assertj.core.data.Offset;

/** Log-softmax, ranks and the most likely tokens, in float64 and by counting. */
final class Reference {

  static final Offset<Float> TOLERANCE = within(1e-5f);

  private Reference() {}

  static double logOfSum(float[] logits) {
    double highest = Double.NEGATIVE_INFINITY;
    for (float logit : logits) {
      highest = Math.max(highest, logit);
    }
    double sum = 0;
    for (float logit : logits) {
      sum += Math.exp(logit - highest);
    }
    return highest + Math.log(sum);
  }

  /** One more than the tokens before it: a higher logit, or the same and a lower id. */
  static int rank(float[] logits, int id) {
    int before = 0;
    for (int other = 0; other < logits.length; other++) {
      if (isBefore(logits, other, id)) {
        before++;
      }
    }
    return before + 1;
  }

  /** The first tokens in rank, each found by going through all. */
  static int[] top(float[] logits, int k) {
    int[] top = new int[k];
    for (int i = 0; i < k; i++) {
      int best = -1;
      for (int id = 0; id < logits.length; id++) {
        boolean later = i == 0 || isBefore(logits, top[i - 1], id);
        if (later && (best < 0 || isBefore(logits, id, best))) {
          best = id;
        }
      }
      top[i] = best;
    }
    return top;
  }

  private static boolean isBefore(float[] logits, int one, int other) {
    return logits[one] > logits[other] || (logits[one] == logits[other] && one < other);
  }

  static void requireEntry(PromptLogprobs got, int entry, float[] logits, int target) {
    double norm = logOfSum(logits);
    assertThat(got.logprob(entry))
        .as("logprob of entry %d", entry)
        .isCloseTo((float) (logits[target] - norm), TOLERANCE);
    if (got.ranked()) {
      assertThat(got.rank(entry)).as("rank of entry %d", entry).isEqualTo(rank(logits, target));
    }
    int[] top = top(logits, got.topK());
    for (int i = 0; i < top.length; i++) {
      assertThat(got.topId(entry, i)).as("top %d of entry %d", i, entry).isEqualTo(top[i]);
      assertThat(got.topLogprob(entry, i))
          .as("top %d of entry %d", i, entry)
          .isCloseTo((float) (logits[top[i]] - norm), TOLERANCE);
    }
  }
}
