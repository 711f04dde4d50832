package dev.halcyon.engine.logits;

import java.util.Arrays;

/**
 * The log-softmax of one row of float32 logits, on the host: with the maximum subtracted and the
 * sum in double precision. Entries are computed when asked for, from the row, which is not copied.
 */
public final class RowLogprobs {

  private final float[] logits;
  private final float max;
  private final double logOfSum;

  /**
   * Reduces a row.
   *
   * @param logits [vocabSize] without NaN or positive infinity, at least one finite
   */
  public RowLogprobs(float[] logits) {
    this.logits = logits;
    float highest = Float.NEGATIVE_INFINITY;
    for (float logit : logits) {
      highest = Math.max(highest, logit);
    }
    double sum = 0;
    for (float logit : logits) {
      sum += Math.exp((double) logit - highest);
    }
    this.max = highest;
    this.logOfSum = Math.log(sum);
  }

  /**
   * A row that was reduced before.
   *
   * @param max the highest logit
   * @param logOfSum the logarithm of the sum of exp(logit - max)
   */
  public RowLogprobs(float[] logits, float max, double logOfSum) {
    this.logits = logits;
    this.max = max;
    this.logOfSum = logOfSum;
  }

  /** The highest logit. */
  public float max() {
    return max;
  }

  /** The logarithm of the sum of exp(logit - max). */
  public double logOfSum() {
    return logOfSum;
  }

  /** The natural logarithm of a token's probability. */
  public float logprob(int id) {
    return (float) ((double) logits[id] - max - logOfSum);
  }

  /** A token's rank, from 1 for the most likely one; of equal logits the lower id comes first. */
  public int rank(int id) {
    float own = logits[id];
    int rank = 1;
    for (int i = 0; i < id; i++) {
      rank += logits[i] >= own ? 1 : 0;
    }
    for (int i = id + 1; i < logits.length; i++) {
      rank += logits[i] > own ? 1 : 0;
    }
    return rank;
  }

  /**
   * The ids of the k most likely tokens, in the order of their rank. Expected time is linear in the
   * vocabulary, plus k log k.
   *
   * @param k at most vocabSize
   */
  public int[] top(int k) {
    if (k == 0) {
      return new int[0];
    }
    long[] keys = RankKeys.first(logits, k, RankKeys.ALL);
    Arrays.sort(keys);
    return Arrays.stream(keys).mapToInt(RankKeys::id).toArray();
  }

  /** Sets an entry of prompt logprobs from this row. */
  public void setEntry(PromptLogprobs out, int entry) {
    int[] top = top(out.topK());
    float[] topLogprobs = new float[top.length];
    for (int i = 0; i < top.length; i++) {
      topLogprobs[i] = logprob(top[i]);
    }
    out.setTop(entry, top, topLogprobs);
    int target = out.target(entry);
    if (target == PromptLogprobs.UNKNOWN) {
      out.setLastNormalizer(max, logOfSum);
    } else {
      out.setTarget(entry, logprob(target), out.ranked() ? rank(target) : 0);
    }
  }
}
