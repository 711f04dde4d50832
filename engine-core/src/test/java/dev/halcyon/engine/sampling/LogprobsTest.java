package dev.halcyon.engine.sampling;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.halcyon.engine.TokenLogprobs;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

class LogprobsTest {

  @Test
  void logprobsByHand() {
    // exp: 1, 2, 4, 1 with a sum of 8
    float two = (float) Math.log(2);
    TokenLogprobs logprobs = Logprobs.of(new float[] {0, two, 2 * two, 0}, 3, 2);
    assertThat(logprobs.tokenId()).isEqualTo(3);
    assertThat(new ArrayList<>(logprobs.entries().keySet())).containsExactly(2, 1, 3);
    assertEntry(logprobs, 2, Math.log(4 / 8.0), 1);
    assertEntry(logprobs, 1, Math.log(2 / 8.0), 2);
    assertEntry(logprobs, 3, Math.log(1 / 8.0), 4); // the tie with token 0 goes to the lower id
  }

  @Test
  void zeroGivesTheChosenTokenAlone() {
    assertThat(Logprobs.of(new float[] {5, 5}, 1, 0).entries())
        .isEqualTo(Map.of(1, new TokenLogprobs.Entry((float) Math.log(0.5), 2)));
  }

  @Test
  void theChosenTokenIsNotListedTwice() {
    assertThat(Logprobs.of(new float[] {1, 5, 2}, 1, 2).entries()).containsOnlyKeys(1, 2);
  }

  @Test
  void largeLogitsNeitherOverflowNorVanish() {
    TokenLogprobs logprobs =
        Logprobs.of(new float[] {3e38f, -3e38f, Float.NEGATIVE_INFINITY}, 2, 3);
    assertThat(logprobs.entries().get(0).logprob()).isZero();
    assertThat(logprobs.chosen().logprob()).isEqualTo(Float.NEGATIVE_INFINITY);
    assertThat(logprobs.chosen().rank()).isEqualTo(3);
  }

  @Test
  void agreesWithASortedSoftmaxInDoublePrecision() {
    Random random = new Random(5);
    float[] logits = new float[20_000];
    for (int id = 0; id < logits.length; id++) {
      logits[id] = Math.round(random.nextGaussian() * 3000) / 1000f; // with many ties
    }
    List<Integer> ranked = new ArrayList<>();
    double sum = 0;
    for (int id = 0; id < logits.length; id++) {
      ranked.add(id);
      sum += Math.exp(logits[id]);
    }
    ranked.sort(Comparator.comparingDouble((Integer id) -> -logits[id]).thenComparing(id -> id));
    int chosen = ranked.get(12_345);
    for (int k : new int[] {0, 1, 5, 33, 1000, logits.length}) {
      TokenLogprobs logprobs = Logprobs.of(logits, chosen, k);
      List<Integer> expected = new ArrayList<>(ranked.subList(0, k));
      if (!expected.contains(chosen)) {
        expected.add(chosen);
      }
      assertThat(new ArrayList<>(logprobs.entries().keySet())).isEqualTo(expected);
      assertEntry(logprobs, chosen, logits[chosen] - Math.log(sum), 12_346);
      for (int i = 0; i < k; i++) {
        assertEntry(logprobs, ranked.get(i), logits[ranked.get(i)] - Math.log(sum), i + 1);
      }
    }
  }

  private static void assertEntry(TokenLogprobs logprobs, int id, double logprob, int rank) {
    assertThat((double) logprobs.entries().get(id).logprob()).isCloseTo(logprob, within(2e-6));
    assertThat(logprobs.entries().get(id).rank()).isEqualTo(rank);
  }
}
