package dev.halcyon.engine.sampling;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.logits.RankKeys;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.constraints.FloatRange;
import net.jqwik.api.constraints.IntRange;
import org.junit.jupiter.api.Test;

class TokenFilterTest {

  private static final float NEVER = Float.NEGATIVE_INFINITY;

  @Test
  void nothingSetKeepsAll() {
    assertThat(kept(new Rows(), 1, 5, NEVER)).containsExactly(0, 1, 2);
  }

  @Test
  void topKTakesTheLowerIdsOfATieAtItsBorder() {
    Rows rows = new Rows();
    rows.topK = 3;
    assertThat(kept(rows, 1, 2, 1, 0, 1, 1)).containsExactly(0, 1, 2);
    assertThat(kept(rows, 1, 1, 1, 1)).containsExactly(0, 1, 2);
    assertThat(kept(rows, -0.0f, 0.0f, -0.0f, 0.0f)).containsExactly(0, 1, 2);
    rows.topK = 4;
    assertThat(kept(rows, 1, 2, 1, 0, 1, 1)).containsExactly(0, 1, 2, 4);
    rows.topK = 100;
    assertThat(kept(rows, 1, 2, 3)).containsExactly(0, 1, 2);
  }

  @Test
  void topPKeepsTheFewestThatReachIt() {
    // Four equal tokens: a quarter each, exactly.
    Rows rows = new Rows();
    rows.topP = 0.5f;
    assertThat(kept(rows, 7, 7, 7, 7)).containsExactly(0, 1);
    rows.topP = Math.nextUp(0.5f);
    assertThat(kept(rows, 7, 7, 7, 7)).containsExactly(0, 1, 2);
    rows.topP = 0.25f;
    assertThat(kept(rows, 7, 7, 7, 7)).containsExactly(0);
    rows.topP = Float.MIN_VALUE;
    assertThat(kept(rows, 0, 1, 0)).containsExactly(1);
    // e^2 / (e^2 + e^1 + e^0) = 0.66524, with e^1: 0.90997
    rows.topP = 0.665f;
    assertThat(kept(rows, 1, 2, 0)).containsExactly(1);
    rows.topP = 0.666f;
    assertThat(kept(rows, 1, 2, 0)).containsExactly(0, 1);
    rows.topP = 0.91f;
    assertThat(kept(rows, 1, 2, 0)).containsExactly(0, 1, 2);
  }

  @Test
  void topPReadsProbabilitiesAtTheTemperature() {
    // At temperature 0.5: e^4 / (e^4 + e^2 + e^0) = 0.86681
    Rows rows = new Rows();
    rows.temperature = 0.5f;
    rows.topP = 0.866f;
    assertThat(kept(rows, 1, 2, 0)).containsExactly(1);
    rows.topP = 0.867f;
    assertThat(kept(rows, 1, 2, 0)).containsExactly(0, 1);
  }

  @Test
  void minPIsRelativeToTheMostLikely() {
    // ln 0.5 = -0.693: relative to the highest, a logit of -0.69 is kept and one of -0.70 is not.
    Rows rows = new Rows();
    rows.minP = 0.5f;
    assertThat(kept(rows, 3, 3 - 0.69f, 3 - 0.70f, -9)).containsExactly(0, 1);
    rows.temperature = 2; // halves the differences
    assertThat(kept(rows, 3, 3 - 1.38f, 3 - 1.39f, -9)).containsExactly(0, 1);
    rows.minP = 1;
    assertThat(kept(rows, 3, 2.9f, 3, -9)).containsExactly(0, 2);
  }

  @Test
  void eachFilterLooksAtWhatTheOneBeforeKept() {
    // Of six equal tokens topK keeps four, so half of the probability is two.
    Rows rows = new Rows();
    rows.topK = 4;
    rows.topP = 0.5f;
    assertThat(kept(rows, 1, 1, 1, 1, 1, 1)).containsExactly(0, 1);
    // minP leaves the three first, topK more than that.
    rows.topP = 0.34f;
    rows.minP = 0.9f;
    assertThat(kept(rows, 1, 1, 1, 0, 0, 0)).containsExactly(0, 1);
  }

  @Test
  void ruledOutTokensNeverCount() {
    Rows rows = new Rows();
    rows.topP = 0.99f;
    assertThat(kept(rows, NEVER, 1, NEVER, 1)).containsExactly(1, 3);
    rows.topK = 3;
    for (int position = 0; position < 200; position++) {
      rows.position = position;
      assertThat(rows.sample(NEVER, 1, NEVER, 1, NEVER).tokenId()).isIn(1, 3);
    }
  }

  @Property(tries = 1000)
  void theKeptSetIsThatOfASort(
      @ForAll("logits") float[] logits,
      @ForAll @FloatRange(min = 0.1f, max = 3) float temperature,
      @ForAll @IntRange(max = 40) int topK,
      @ForAll @FloatRange(min = 0.01f, max = 1) float topP,
      @ForAll @FloatRange(min = 0, max = 1) float minP) {
    Rows rows = new Rows();
    rows.temperature = temperature;
    rows.topK = topK;
    rows.topP = topP;
    rows.minP = minP;
    List<Integer> ranked = ranked(logits);
    double max = logits[ranked.get(0)];
    if (minP > 0) {
      ranked.removeIf(id -> logits[id] < max + temperature * Math.log(minP));
    }
    if (topK > 0 && topK < ranked.size()) {
      ranked = ranked.subList(0, topK);
    }
    List<Integer> kept = kept(rows, logits);
    assertThat(kept).containsExactlyInAnyOrderElementsOf(ranked.subList(0, kept.size()));
    double total = mass(ranked, logits, max, temperature);
    double rounding = 1e-12;
    assertThat(mass(ranked.subList(0, kept.size()), logits, max, temperature) / total)
        .isGreaterThanOrEqualTo(topP - rounding);
    if (topP < 1) {
      assertThat(mass(ranked.subList(0, kept.size() - 1), logits, max, temperature) / total)
          .isLessThan(topP + rounding);
    } else {
      assertThat(kept).hasSameSizeAs(ranked);
    }
  }

  /** Of a few values, so that ties abound, or of many. */
  @Provide
  Arbitrary<float[]> logits() {
    Arbitrary<Float> few = Arbitraries.integers().between(-3, 3).map(i -> i / 2f);
    Arbitrary<Float> many = Arbitraries.floats().between(-10, 10).ofScale(4);
    return Arbitraries.oneOf(few, many).array(float[].class).ofMinSize(1).ofMaxSize(200);
  }

  private static double mass(List<Integer> ids, float[] logits, double max, double temperature) {
    return ids.stream().mapToDouble(id -> Math.exp((logits[id] - max) / temperature)).sum();
  }

  private static List<Integer> ranked(float[] logits) {
    List<Integer> ids = new ArrayList<>();
    for (int id = 0; id < logits.length; id++) {
      ids.add(id);
    }
    ids.sort(
        Comparator.comparingDouble((Integer id) -> -(logits[id] + 0.0)).thenComparing(id -> id));
    return ids;
  }

  private static List<Integer> kept(Rows rows, float... logits) {
    float max = logits[ranked(logits).get(0)];
    long bound = TokenFilter.bound(logits, rows.settings(), new Weights(max, rows.temperature));
    List<Integer> kept = new ArrayList<>();
    for (int id = 0; id < logits.length; id++) {
      if (RankKeys.encode(logits[id], id) <= bound) {
        kept.add(id);
      }
    }
    return kept;
  }
}
