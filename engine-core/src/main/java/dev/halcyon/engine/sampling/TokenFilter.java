package dev.halcyon.engine.sampling;

import dev.halcyon.engine.logits.RankKeys;
import java.util.Arrays;

/**
 * Narrows the tokens to draw from, in this order: minP, topK, topP. Each keeps a prefix of the
 * order of rank, and each later one looks at what the earlier ones kept; topP reads probabilities
 * normalised over that. No filter sorts the vocabulary: expected time is linear in it.
 */
final class TokenFilter {

  /** Bands of topP: their number, and how many to a factor of e in weight. The last one is open. */
  private static final int BANDS = 1024;

  private static final int BANDS_PER_UNIT = 32;

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

  /**
   * Sums weights in bands of rank first; only the band in which topP is reached is then looked
   * into.
   */
  private static long topP(float[] logits, double topP, long bound, Weights weights) {
    float lowest = lowestLogit(bound);
    double[] mass = new double[BANDS];
    for (int id = 0; id < logits.length; id++) {
      float logit = logits[id];
      if (logit >= lowest && RankKeys.encode(logit, id) <= bound) {
        double scaled = weights.scaled(logit);
        mass[band(scaled)] += Math.exp(scaled);
      }
    }
    double total = Arrays.stream(mass).sum();
    double target = topP * total;
    double before = 0;
    int band = 0;
    int last =
        0; // the last band that has any weight, should rounding leave the target out of reach
    while (band < BANDS && before + mass[band] < target) {
      last = mass[band] > 0 ? band : last;
      before += mass[band++];
    }
    if (band == BANDS) {
      band = last;
      before -= mass[last];
    }
    long[] keys = keysOfBand(band, logits, bound, weights);
    return RankKeys.lastToReach(target - before, keys, keys.length, weights::of);
  }

  private static int band(double scaled) {
    return (int) Math.min(BANDS - 1, -scaled * BANDS_PER_UNIT);
  }

  private static long[] keysOfBand(int band, float[] logits, long bound, Weights weights) {
    float lowest = lowestLogit(bound);
    long[] keys = new long[256];
    int size = 0;
    for (int id = 0; id < logits.length; id++) {
      float logit = logits[id];
      if (logit < lowest || band(weights.scaled(logit)) != band) {
        continue;
      }
      long key = RankKeys.encode(logit, id);
      if (key <= bound) {
        if (size == keys.length) {
          keys = Arrays.copyOf(keys, 2 * size);
        }
        keys[size++] = key;
      }
    }
    return Arrays.copyOf(keys, size);
  }

  /** A quick test before a key is made: no token below this logit is inside the bound. */
  static float lowestLogit(long bound) {
    return bound == RankKeys.ALL ? Float.NEGATIVE_INFINITY : RankKeys.logit(bound);
  }
}
