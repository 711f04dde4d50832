package dev.halcyon.engine.sampling;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import org.junit.jupiter.api.Test;

/**
 * Draws against exact probabilities by Pearson's chi-square. The seeds are fixed; a correct sampler
 * fails a check for one seed in ten thousand.
 */
class DistributionTest {

  /**
   * The chi-square distribution's upper 1e-4 quantiles, by degrees of freedom from 1 (from scipy).
   */
  private static final double[] QUANTILE = {
    Double.NaN, 15.137, 18.421, 21.108, 23.513, 25.745, 27.856, 29.878, 31.828, 33.720
  };

  private static final int DRAWS = 40_000;
  private static final float[] LOGITS = logs(30, 5, 20, 1, 10, 34);

  private static final BiConsumer<Rows, Integer> BY_POSITION = (rows, i) -> rows.position = i;
  private static final BiConsumer<Rows, Integer> BY_SAMPLE = (rows, i) -> rows.sampleIndex = i;
  private static final BiConsumer<Rows, Integer> BY_SEED = (rows, i) -> rows.seed = i;

  @Test
  void plainSamplingOverPositionsSamplesAndSeeds() {
    for (BiConsumer<Rows, Integer> over : List.of(BY_POSITION, BY_SAMPLE, BY_SEED)) {
      assertDistribution(new Rows(), over, 30, 5, 20, 1, 10, 34);
    }
  }

  @Test
  void temperatureTakesARoot() {
    Rows rows = new Rows();
    rows.temperature = 0.5f; // squares
    assertDistribution(rows, BY_POSITION, 900, 25, 400, 1, 100, 1156);
    rows.temperature = 2;
    assertDistribution(
        rows,
        BY_SAMPLE,
        Math.sqrt(30),
        Math.sqrt(5),
        Math.sqrt(20),
        1,
        Math.sqrt(10),
        Math.sqrt(34));
  }

  @Test
  void filteredTokensAreNeverDrawnAndTheOthersKeepTheirProportions() {
    Rows rows = new Rows();
    rows.topK = 3;
    assertDistribution(rows, BY_POSITION, 30, 0, 20, 0, 0, 34);
    rows.topP = 0.7f; // of 84: 34 + 30 = 64 reach 58.8
    assertDistribution(rows, BY_SEED, 30, 0, 0, 0, 0, 34);
    rows = new Rows();
    rows.topP = 0.9f; // of 100: 34 + 30 + 20 = 84 don't reach 90, with 10 they do
    assertDistribution(rows, BY_POSITION, 30, 0, 20, 0, 10, 34);
    rows = new Rows();
    rows.minP = 0.28f; // 0.28 * 34 = 9.52
    assertDistribution(rows, BY_POSITION, 30, 0, 20, 0, 10, 34);
  }

  @Test
  void biasAndPenaltiesWeighIn() {
    Rows rows = new Rows();
    rows.bias = Map.of(3, (float) Math.log(12), 5, Float.NEGATIVE_INFINITY);
    rows.presence = (float) Math.log(2);
    rows.frequency = (float) Math.log(3);
    rows.generated = new int[] {0, 2, 0};
    // 30 / (2 * 3 * 3), 5, 20 / (2 * 3), 1 * 12, 10, ruled out
    assertDistribution(rows, BY_POSITION, 30 / 18.0, 5, 20 / 6.0, 12, 10, 0);
  }

  @Test
  void rareTokensAppearAsOftenAsTheyShould() {
    // One token with 99.9 %, a hundred that share the rest: 40 of 40,000 draws are expected.
    float[] logits = new float[101];
    logits[50] = (float) Math.log(999 * 100);
    int rare = 0;
    Rows rows = new Rows();
    for (int i = 0; i < DRAWS; i++) {
      rows.position = i;
      rare += rows.sample(logits).tokenId() == 50 ? 0 : 1;
    }
    double expected = DRAWS / 1000.0;
    double chiSquare = square(rare - expected) * (1 / expected + 1 / (DRAWS - expected));
    assertThat(chiSquare).isLessThan(QUANTILE[1]);
  }

  @Test
  void neighbouringPositionsAndSamplesAreIndependent() {
    float[] logits = logs(1, 2, 3, 4);
    double[] p = {0.1, 0.2, 0.3, 0.4};
    int[][] positions = new int[4][4];
    int[][] samples = new int[4][4];
    Rows rows = new Rows();
    rows.seed = 3;
    for (int i = 0; i < DRAWS; i++) {
      rows.position = 2 * i;
      int here = rows.sample(logits).tokenId();
      rows.sampleIndex = 1;
      samples[here][rows.sample(logits).tokenId()]++;
      rows.sampleIndex = 0;
      rows.position = 2 * i + 1;
      positions[here][rows.sample(logits).tokenId()]++;
    }
    // All cells against p(a) * p(b): 15 degrees of freedom, upper 1e-4 quantile 44.263.
    assertThat(chiSquareOfPairs(positions, p)).isLessThan(44.263);
    assertThat(chiSquareOfPairs(samples, p)).isLessThan(44.263);
  }

  private static double chiSquareOfPairs(int[][] counts, double[] p) {
    double sum = 0;
    for (int a = 0; a < p.length; a++) {
      for (int b = 0; b < p.length; b++) {
        double expected = DRAWS * p[a] * p[b];
        sum += square(counts[a][b] - expected) / expected;
      }
    }
    return sum;
  }

  private static void assertDistribution(
      Rows rows, BiConsumer<Rows, Integer> over, double... weights) {
    int[] counts = new int[weights.length];
    for (int i = 0; i < DRAWS; i++) {
      over.accept(rows, i);
      counts[rows.sample(LOGITS).tokenId()]++;
    }
    double total = 0;
    for (double weight : weights) {
      total += weight;
    }
    double chiSquare = 0;
    int cells = 0;
    for (int id = 0; id < weights.length; id++) {
      if (weights[id] == 0) {
        assertThat(counts[id]).as("draws of token %d, which is ruled out", id).isZero();
        continue;
      }
      double expected = DRAWS * weights[id] / total;
      chiSquare += square(counts[id] - expected) / expected;
      cells++;
    }
    assertThat(chiSquare).isLessThan(QUANTILE[cells - 1]);
  }

  private static double square(double x) {
    return x * x;
  }

  private static float[] logs(double... weights) {
    float[] logits = new float[weights.length];
    for (int i = 0; i < weights.length; i++) {
      logits[i] = (float) Math.log(weights[i]);
    }
    return logits;
  }
}
