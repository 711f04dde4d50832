package dev.halcyon.engine.logits;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Logprobs and ranks of rows, and the entries made of them, against float64 and counting. */
class LogprobsTest {

  private static final float NONE = Float.NEGATIVE_INFINITY;

  private static void requireRow(float[] logits) {
    RowLogprobs row = new RowLogprobs(logits);
    double norm = Reference.logOfSum(logits);
    for (int id = 0; id < logits.length; id++) {
      float expected = (float) (logits[id] - norm);
      if (expected == NONE) {
        assertThat(row.logprob(id)).isEqualTo(NONE);
      } else {
        assertThat(row.logprob(id)).isCloseTo(expected, Reference.TOLERANCE);
      }
      assertThat(row.rank(id)).as("rank of %d", id).isEqualTo(Reference.rank(logits, id));
    }
    for (int k : new int[] {0, 1, 2, logits.length}) {
      int count = Math.min(k, logits.length);
      assertThat(row.top(count)).isEqualTo(Reference.top(logits, count));
    }
  }

  /** softmax(ln 1, ln 2, ln 5) = 1/8, 2/8, 5/8. */
  @Test
  void probabilitiesAreSharesOfTheSum() {
    RowLogprobs row =
        new RowLogprobs(
            new float[] {(float) Math.log(1), (float) Math.log(2), (float) Math.log(5)});
    assertThat(Math.exp(row.logprob(0))).isCloseTo(0.125, within(1e-6));
    assertThat(Math.exp(row.logprob(1))).isCloseTo(0.25, within(1e-6));
    assertThat(Math.exp(row.logprob(2))).isCloseTo(0.625, within(1e-6));
  }

  @Test
  void ofEqualLogitsTheLowerIdComesFirst() {
    float[] logits = {1, 3, 2, 3, 2, 3};
    RowLogprobs row = new RowLogprobs(logits);
    assertThat(row.top(6)).containsExactly(1, 3, 5, 2, 4, 0);
    assertThat(row.rank(1)).isEqualTo(1);
    assertThat(row.rank(5)).isEqualTo(3);
    assertThat(row.rank(4)).isEqualTo(5);
    assertThat(row.rank(0)).isEqualTo(6);
    requireRow(logits);
  }

  @Test
  void negativeZeroEqualsZero() {
    float[] logits = {-0.0f, 0.0f, -0.0f, 1};
    assertThat(new RowLogprobs(logits).top(4)).containsExactly(3, 0, 1, 2);
    requireRow(logits);
  }

  @Test
  void entriesThatAreRuledOutComeLastWithNoProbability() {
    float[] logits = {NONE, 1, NONE, -2, NONE};
    assertThat(new RowLogprobs(logits).top(5)).containsExactly(1, 3, 0, 2, 4);
    requireRow(logits);
    requireRow(new float[] {NONE, NONE, 7});
  }

  @ParameterizedTest
  @ValueSource(floats = {3e38f, -3e38f, 88, -104, 1e-40f})
  void largeAndSmallLogitsNeitherOverflowNorVanish(float logit) {
    RowLogprobs row = new RowLogprobs(new float[] {logit, logit, logit, logit});
    assertThat(row.logprob(3)).isCloseTo((float) -Math.log(4), Reference.TOLERANCE);
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 97, 500})
  void randomRowsWithManyTiesAndGaps(int vocabSize) {
    SplittableRandom random = new SplittableRandom(vocabSize);
    for (int round = 0; round < 8; round++) {
      float[] logits = new float[vocabSize];
      for (int id = 0; id < vocabSize; id++) {
        logits[id] = random.nextInt(5) == 0 ? NONE : random.nextInt(-20, 20) / 4f;
      }
      logits[random.nextInt(vocabSize)] = 0.5f;
      requireRow(logits);
    }
  }

  /** More tokens than the smallest buffer of a selection, so that it is cut back on the way. */
  @Test
  void topOfManyTokens() {
    SplittableRandom random = new SplittableRandom(3);
    float[] rising = new float[20000];
    float[] drawn = new float[20000];
    float[] equal = new float[20000];
    for (int id = 0; id < rising.length; id++) {
      rising[id] = id;
      drawn[id] = random.nextInt(300);
    }
    for (float[] logits : new float[][] {rising, drawn, equal}) {
      for (int k : new int[] {1, 5, 50}) {
        assertThat(new RowLogprobs(logits).top(k)).isEqualTo(Reference.top(logits, k));
      }
      int[] all = new RowLogprobs(logits).top(logits.length);
      assertThat(Arrays.stream(all).distinct().count()).isEqualTo(logits.length);
      for (int i = 1; i < all.length; i++) {
        assertThat(
                logits[all[i - 1]] > logits[all[i]]
                    || (logits[all[i - 1]] == logits[all[i]] && all[i - 1] < all[i]))
            .isTrue();
      }
    }
  }

  @ParameterizedTest
  @ValueSource(floats = {0, -0.0f, 1.5f, -1.5f, 3e38f, -3e38f, 1e-45f, Float.NEGATIVE_INFINITY})
  void aKeyTellsItsTokenAndLogit(float logit) {
    for (int id : new int[] {0, 1, 262143, Integer.MAX_VALUE}) {
      long key = RankKeys.encode(logit, id);
      assertThat(RankKeys.id(key)).isEqualTo(id);
      assertThat(RankKeys.logit(key)).isEqualTo(logit + 0.0f);
    }
  }

  @Test
  void keysAscendInTheOrderOfRank() {
    float[] falling = {3e38f, 2, 1e-45f, 0, -1e-45f, -2, -3e38f, NONE};
    for (int i = 1; i < falling.length; i++) {
      assertThat(RankKeys.encode(falling[i - 1], Integer.MAX_VALUE))
          .isLessThan(RankKeys.encode(falling[i], 0));
      assertThat(RankKeys.encode(falling[i], 4)).isLessThan(RankKeys.encode(falling[i], 5));
    }
  }

  @Test
  void entriesScoreTheNextTokenAndTheLastOneTheFirstGenerated() {
    int[] ids = {2, 0, 1};
    float[][] logits = {{1, 2, 3, 4}, {4, 3, 3, 1}, {0, NONE, 5, 5}};
    PromptLogprobs out = new PromptLogprobs(ids, 4, true);
    assertThat(out.entries()).isEqualTo(3);
    assertThat(out.target(0)).isZero();
    assertThat(out.target(1)).isEqualTo(1);
    assertThat(out.target(2)).isEqualTo(PromptLogprobs.UNKNOWN);
    for (int row = 0; row < 3; row++) {
      new RowLogprobs(logits[row]).setEntry(out, row);
    }
    assertThatThrownBy(() -> out.scoreFirstToken(3)).isInstanceOf(IllegalStateException.class);
    out.retainLast(logits[2]);
    out.scoreFirstToken(3);
    Reference.requireEntry(out, 0, logits[0], 0);
    Reference.requireEntry(out, 1, logits[1], 1);
    assertThat(out.rank(2)).as("tie with the lower id 2").isEqualTo(2);
    assertThat(out.target(2)).isEqualTo(3);
    assertThat(out.topId(2, 0)).isEqualTo(2);
    assertThat(out.topId(2, 3)).isEqualTo(1);
    assertThat(out.topLogprob(2, 3)).isEqualTo(NONE);
    assertThat(out.logprob(2))
        .isCloseTo((float) (5 - Reference.logOfSum(logits[2])), Reference.TOLERANCE);
  }

  @Test
  void aLastRowIsScoredOnce() {
    PromptLogprobs out = new PromptLogprobs(new int[] {1}, 0, true);
    float[] logits = {1, 2};
    new RowLogprobs(logits).setEntry(out, 0);
    out.retainLast(logits);
    out.scoreFirstToken(0);
    assertThat(out.rank(0)).isEqualTo(2);
    assertThatThrownBy(() -> out.scoreFirstToken(1)).isInstanceOf(IllegalStateException.class);
    assertThat(out.target(0)).as("what was scored stays").isZero();
  }

  @Test
  void ranksAreLeftOutUnlessWanted() {
    PromptLogprobs out = new PromptLogprobs(new int[] {1, 0}, 0, false);
    float[] logits = {1, 2};
    new RowLogprobs(logits).setEntry(out, 0);
    assertThat(out.ranked()).isFalse();
    assertThat(out.rank(0)).isZero();
    Reference.requireEntry(out, 0, logits, 0);
  }
}
