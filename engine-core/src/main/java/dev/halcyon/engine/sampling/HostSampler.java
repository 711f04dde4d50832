package dev.halcyon.engine.sampling;

import dev.halcyon.engine.LogitsProcessorException;
import dev.halcyon.engine.SamplingException;

/**
 * Chooses a token from a row of logits in host memory: the reference for any other sampler. Holds
 * no state, so any number of threads may use one.
 *
 * <p>In order: what is reported (a copy of the logits, logprobs) comes from the logits as the model
 * gave them; then the caller's processor, logit bias, the ban of end ids until minTokens, the
 * penalties; then the most likely token (ties by the lower id) when greedy, and otherwise
 * temperature, minP, topK, topP and one draw. How numbers are drawn is said at {@link TokenDraw}.
 */
public final class HostSampler {

  /**
   * Samples one token. Whatever is wrong with this row alone is carried in the result's error: a
   * {@link LogitsProcessorException}, or a {@link SamplingException} for logits that leave nothing
   * to draw from.
   *
   * @param logits [vocabSize] the row; may be overwritten
   * @param row what to do with it; its row number plays no part here
   */
  public SampledToken sample(float[] logits, SamplingRow row) {
    try {
      return choose(logits, row);
    } catch (RuntimeException e) {
      return new SampledToken(-1, null, null, e);
    }
  }

  private static SampledToken choose(float[] logits, SamplingRow row) {
    int mostLikely = mostLikely(logits, "The model's logits");
    boolean untouched = LogitAdjustments.none(row);
    float[] raw = logits;
    if (row.copyLogits() || (row.logprobs() >= 0 && !untouched)) {
      raw = logits.clone();
    }
    if (!untouched) {
      LogitAdjustments.apply(logits, row);
      mostLikely = mostLikely(logits, "The logits after processor, bias, minTokens and penalties");
    }
    int tokenId = row.settings().greedy() ? mostLikely : draw(logits, mostLikely, row);
    return new SampledToken(
        tokenId,
        row.logprobs() >= 0 ? Logprobs.of(raw, tokenId, row.logprobs()) : null,
        row.copyLogits() ? raw : null,
        null);
  }

  private static int draw(float[] logits, int mostLikely, SamplingRow row) {
    SamplingSettings settings = row.settings();
    Weights weights = new Weights(logits[mostLikely], settings.temperature());
    long bound = TokenFilter.bound(logits, settings, weights);
    return TokenDraw.draw(logits, mostLikely, bound, weights, row);
  }

  /** The lowest id among the highest logits. */
  private static int mostLikely(float[] logits, String what) {
    int best = -1;
    float max = Float.NEGATIVE_INFINITY;
    for (int id = 0; id < logits.length; id++) {
      float logit = logits[id];
      if (logit > max) {
        max = logit;
        best = id;
      } else if (Float.isNaN(logit)) {
        throw new SamplingException(what + " hold NaN at token " + id + ", expected numbers");
      }
    }
    if (best < 0) {
      throw new SamplingException(
          what + " rule out every token: all are negative infinity, expected at least one finite");
    }
    if (max == Float.POSITIVE_INFINITY) {
      throw new SamplingException(
          what + " hold positive infinity at token " + best + ", expected finite numbers");
    }
    return best;
  }
}
