package dev.halcyon.engine.sampling;

import java.util.Arrays;

/**
 * Narrows the tokens to draw from, in this order: minP, topK, topP. Each keeps a prefix of the
 * order of rank, and each later one looks at what the earlier ones kept; topP reads probabilities
 * normalised over that. No filter sorts the vocabulary: expected time is linear in it.
 */
final class TokenFilter {

  private TokenFilter() {}

  /** The key of the last token kept (see {@link RankKeys}); always keeps the most likely one. */
  static long bound(float[] logits, SamplingSettings settings, Weights weights) {
    long bound = RankKeys.ALL;
    if (settings.minP() > 0) {
      bound = RankKeys.boundAtLeast(weights.logitOf(settings.minP()));
    }
    if (settings.topK() > 0 && settings.topK() < logits.length) {
      long[] first = RankKeys.first(logits, settings.topK(), bound);
      bound = first[first.length - 1];
    }
    if (settings.topP() < 1) {
      bound = topP(logits, settings.topP(), bound, weights);
    }
    return bound;
  }

  private static long topP(float[] logits, double topP, long bound, Weights weights) {
    float lowest = lowestLogit(bound);
    double total = 0;
    int kept = 0;
    for (int id = 0; id < logits.length; id++) {
      float logit = logits[id];
      if (logit >= lowest && RankKeys.encode(logit, id) <= bound) {
        total += weights.of(logit);
        kept++;
      }
    }
    // All tokens lighter than (1 - topP) * total / kept weigh less than (1 - topP) * total
    // together, so the
    // others reach topP without them. Half of that leaves room for rounding.
    double lightest = 0.5 * (1 - topP) * total / kept;
    long candidateBound = Math.min(bound, RankKeys.boundAtLeast(weights.logitOf(lightest)));
    long[] candidates = collect(logits, candidateBound, kept);
    return RankKeys.lastToReach(topP * total, candidates, candidates.length, weights);
  }

  private static long[] collect(float[] logits, long bound, int most) {
    float lowest = lowestLogit(bound);
    long[] keys = new long[Math.min(most, 1024)];
    int size = 0;
    for (int id = 0; id < logits.length; id++) {
      float logit = logits[id];
      if (logit < lowest) {
        continue;
      }
      long key = RankKeys.encode(logit, id);
      if (key <= bound) {
        if (size == keys.length) {
          keys = Arrays.copyOf(keys, Math.min(most, 2 * size));
        }
        keys[size++] = key;
      }
    }
    return size == keys.length ? keys : Arrays.copyOf(keys, size);
  }

  /** A quick test before a key is made: no token below this logit is inside the bound. */
  static float lowestLogit(long bound) {
    return bound == RankKeys.ALL ? Float.NEGATIVE_INFINITY : RankKeys.logit(bound);
  }
}
