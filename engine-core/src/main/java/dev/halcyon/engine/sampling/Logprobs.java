package dev.halcyon.engine.sampling;

import dev.halcyon.engine.TokenLogprobs;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/** Log-probabilities and ranks of a row of logits. */
public final class Logprobs {

  private Logprobs() {}

  /**
   * The log-softmax of float32 logits, with the maximum subtracted and the sum in double precision,
   * for one token and the k most likely ones. Expected time is linear in the vocabulary, plus k log
   * k.
   *
   * @param logits [vocabSize] without NaN or positive infinity, at least one finite
   * @param tokenId the token whose own entry is always there
   * @param k how many of the most likely tokens, at most vocabSize
   */
  public static TokenLogprobs of(float[] logits, int tokenId, int k) {
    float max = Float.NEGATIVE_INFINITY;
    for (float logit : logits) {
      max = Math.max(max, logit);
    }
    double sum = 0;
    for (float logit : logits) {
      sum += Math.exp((double) logit - max);
    }
    double logSum = max + Math.log(sum);

    Map<Integer, TokenLogprobs.Entry> entries = new LinkedHashMap<>();
    if (k > 0) {
      long[] first = RankKeys.first(logits, k, RankKeys.ALL);
      Arrays.sort(first);
      for (int i = 0; i < first.length; i++) {
        entries.put(RankKeys.id(first[i]), entry(RankKeys.logit(first[i]), logSum, i + 1));
      }
    }
    if (!entries.containsKey(tokenId)) {
      entries.put(tokenId, entry(logits[tokenId], logSum, rank(logits, tokenId)));
    }
    return new TokenLogprobs(tokenId, entries);
  }

  private static TokenLogprobs.Entry entry(float logit, double logSum, int rank) {
    return new TokenLogprobs.Entry((float) (logit - logSum), rank);
  }

  private static int rank(float[] logits, int tokenId) {
    float own = logits[tokenId];
    int rank = 1;
    for (int id = 0; id < logits.length; id++) {
      if (logits[id] > own || (logits[id] == own && id < tokenId)) {
        rank++;
      }
    }
    return rank;
  }
}
