package dev.halcyon.engine.cuda;

import dev.halcyon.engine.logits.PromptLogprobs;
import dev.halcyon.engine.logits.RankKeys;
import java.nio.ByteBuffer;

/**
 * What reductions of rows leave for the host, as ranks.cuh's Result; the host takes the logarithms.
 */
final class RowResult {

  private RowResult() {}

  /** Sets the entry of a row whose result begins at {@code at}. */
  static void setEntry(ByteBuffer result, int at, PromptLogprobs out, int entry) {
    float max = result.getFloat(at + 8);
    double logOfSum = Math.log(result.getDouble(at));
    if (out.target(entry) == PromptLogprobs.UNKNOWN) {
      out.setLastNormalizer(max, logOfSum);
    } else {
      float logprob = logprob(result.getFloat(at + 12), max, logOfSum);
      out.setTarget(entry, logprob, out.ranked() ? result.getInt(at + 16) + 1 : 0);
    }
    if (out.topK() > 0) {
      long[] keys = LogprobOps.keys(result, at);
      int[] ids = new int[keys.length];
      float[] values = new float[keys.length];
      for (int i = 0; i < keys.length; i++) {
        ids[i] = RankKeys.id(keys[i]);
        values[i] = logprob(RankKeys.logit(keys[i]), max, logOfSum);
      }
      out.setTop(entry, ids, values);
    }
  }

  /** A kernel's word on a row. */
  static int status(ByteBuffer result, int at) {
    return result.getInt(at + 24);
  }

  /** As the host computes it. */
  static float logprob(float logit, float max, double logOfSum) {
    return (float) ((double) logit - max - logOfSum);
  }
}
