package dev.halcyon.engine.sampling;

import dev.halcyon.engine.TokenLogprobs;
import dev.halcyon.engine.logits.RowLogprobs;
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
    RowLogprobs row = new RowLogprobs(logits);
    Map<Integer, TokenLogprobs.Entry> entries = new LinkedHashMap<>();
    int[] top = row.top(k);
    for (int i = 0; i < top.length; i++) {
      entries.put(top[i], new TokenLogprobs.Entry(row.logprob(top[i]), i + 1));
    }
    if (!entries.containsKey(tokenId)) {
      entries.put(tokenId, new TokenLogprobs.Entry(row.logprob(tokenId), row.rank(tokenId)));
    }
    return new TokenLogprobs(tokenId, entries);
  }
}
