package dev.halcyon.engine.sampling;

import dev.halcyon.engine.logits.RankKeys;

/**
 * Draws a token with a race of exponential clocks (the Gumbel-max trick in its multiplicative
 * form): token i gets a standard exponential number e(i) and the lowest e(i) / w(i) wins, ties by
 * the lower id, w(i) being its unnormalised probability. It wins with probability w(i) / sum of w.
 *
 * <p>Why not one uniform number looked up in the cumulative distribution: there, rounding in one
 * logit moves the borders of all tokens behind it, and a swap of two nearly equal logits, or a
 * token that slips over a filter's border, gives other tokens. Here each token has its own number,
 * so a change of relative size d in the weights changes the outcome with a probability of about d,
 * whatever the order, and the kept set needs no normalising. A kernel can reduce over tokens in any
 * order.
 *
 * <p>The numbers, exactly as a kernel must draw them: the Philox4x32-10 block with key = seed (word
 * 0 its low 32 bits, word 1 its high 32 bits) and counter = (position, sampleIndex, id / 4, 0)
 * holds the words of four neighbouring ids; token id takes word x = id % 4. With v = (x + 0.5) *
 * 2^-32, e = -log1p(-v). Small v win, and those keep their precision in float32 too. Counter word 3
 * is 0 for this use; other values are free.
 *
 * <p>The grid of 2^-32 bounds the error of a token's probability by 2^-33.
 */
final class TokenDraw {

  private static final double GRID = 0x1p-32;

  /** No clock rings before this: e >= v >= 2^-33. */
  private static final double EARLIEST = 0x1p-33;

  private final float[] logits;
  private final long bound;
  private final Weights weights;
  private final SamplingRow row;
  private final int[] words = new int[4];
  private int wordsOf = -1;

  private TokenDraw(float[] logits, long bound, Weights weights, SamplingRow row) {
    this.logits = logits;
    this.bound = bound;
    this.weights = weights;
    this.row = row;
  }

  /**
   * @param mostLikely a token with the highest logit
   * @param bound the key of the last token that may be drawn
   */
  static int draw(float[] logits, int mostLikely, long bound, Weights weights, SamplingRow row) {
    return new TokenDraw(logits, bound, weights, row).race(mostLikely);
  }

  private int race(int mostLikely) {
    int winner = mostLikely;
    double best = -Math.log1p(-uniform(mostLikely));
    float lowest = lowestThatCanBeat(best);
    for (int id = 0; id < logits.length; id++) {
      float logit = logits[id];
      if (logit < lowest || RankKeys.encode(logit, id) > bound) {
        continue;
      }
      double weight = weights.of(logit);
      double uniform = uniform(id);
      // e > v, so most tokens are out before a logarithm is taken.
      if (uniform > best * weight) {
        continue;
      }
      double time = -Math.log1p(-uniform) / weight;
      if (time < best || (time == best && id < winner)) {
        best = time;
        winner = id;
        lowest = lowestThatCanBeat(best);
      }
    }
    return winner;
  }

  /**
   * Tokens below this logit lose whatever they draw: their clocks can't ring before EARLIEST /
   * weight.
   */
  private float lowestThatCanBeat(double best) {
    double lowest = weights.logitOf(EARLIEST / best);
    float rounded = (float) lowest;
    // A step down: the logarithm is rounded, and a token too many does no harm.
    return Math.max(TokenFilter.lowestLogit(bound), Math.nextDown(rounded));
  }

  private double uniform(int id) {
    int block = id >>> 2;
    if (block != wordsOf) {
      Philox.block(row.position(), row.sampleIndex(), block, 0, row.seed(), words);
      wordsOf = block;
    }
    return ((words[id & 3] & 0xFFFFFFFFL) + 0.5) * GRID;
  }
}
