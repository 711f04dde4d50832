package dev.halcyon.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.halcyon.engine.TokenLogprobs.Entry;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/**
 * What the logits of a prompt's rows say in float64, to hold context logits and prompt logprobs
 * against: those of a reference, with a tolerance, or those that were returned themselves.
 */
public final class PromptReference {

  /**
   * How far a logit or a logprob may be from the reference's. Ranks and the ids in them are exact
   * where the reference has a wider gap between two logits than this.
   */
  public static final double TOLERANCE = 1e-4;

  /** Rounding of a logprob to float32, and of its sum. */
  private static final double ROUNDING = 1e-5;

  private final int[] prompt;
  private final float[][] logits;
  private final double logprobTolerance;
  private final double gap;

  private PromptReference(int[] prompt, float[][] logits, double logprobTolerance, double gap) {
    this.prompt = prompt;
    this.logits = logits;
    this.logprobTolerance = logprobTolerance;
    this.gap = gap;
  }

  /**
   * @param logits [prompt.length, vocabSize] of a reference implementation
   */
  public static PromptReference of(int[] prompt, float[][] logits) {
    return new PromptReference(prompt, logits, TOLERANCE, TOLERANCE);
  }

  /**
   * Takes the returned logits as the reference of the logprobs beside them: no gap is too small.
   */
  public static PromptReference of(int[] prompt, LogitsView returned) {
    float[][] logits = new float[returned.rows()][returned.vocabSize()];
    for (int row = 0; row < logits.length; row++) {
      returned.copyRow(row, logits[row]);
    }
    return new PromptReference(prompt, logits, ROUNDING, 0);
  }

  /** The first ids of the prompt: no row depends on what comes behind it. */
  public PromptReference beginning(int length) {
    return new PromptReference(
        Arrays.copyOf(prompt, length), Arrays.copyOf(logits, length), logprobTolerance, gap);
  }

  public int[] prompt() {
    return prompt.clone();
  }

  public int vocabSize() {
    return logits[0].length;
  }

  /** The token after the prompt that greedy sampling takes. */
  public int greedyToken() {
    return byRank(logits.length - 1)[0];
  }

  /** Requires one row for each id of the prompt, in their order, with the reference's values. */
  public void checkLogits(String how, LogitsView view) {
    assertThat(view.rows()).as(how).isEqualTo(prompt.length);
    assertThat(view.vocabSize()).as(how).isEqualTo(vocabSize());
    float[] row = new float[vocabSize()];
    for (int i = 0; i < prompt.length; i++) {
      view.copyRow(i, row);
      for (int id = 0; id < row.length; id++) {
        if (!(Math.abs(row[id] - logits[i][id]) <= TOLERANCE)) {
          assertThat(row[id]).as("%s: logit %d of row %d", how, id, i).isEqualTo(logits[i][id]);
        }
      }
    }
  }

  /**
   * Requires an entry for each id of the prompt: entry i scores id i + 1, the last one the first
   * generated token.
   */
  public void checkLogprobs(String how, List<TokenLogprobs> got, int firstToken, int k) {
    assertThat(got).as(how).hasSize(prompt.length);
    for (int i = 0; i < prompt.length; i++) {
      int target = i + 1 < prompt.length ? prompt[i + 1] : firstToken;
      checkEntry(how + ": entry " + i, got.get(i), i, target, k);
    }
  }

  private void checkEntry(String how, TokenLogprobs got, int row, int target, int k) {
    assertThat(got.tokenId()).as(how).isEqualTo(target);
    assertThat((double) got.chosen().logprob())
        .as(how)
        .isCloseTo(logprob(row, target), within(logprobTolerance));
    assertThat(got.chosen().rank())
        .as(how + ": rank of " + target)
        .isBetween(1 + ahead(row, target, true), 1 + ahead(row, target, false));
    boolean amongTop = got.chosen().rank() <= k;
    assertThat(got.entries()).as(how).hasSize(amongTop ? k : k + 1);
    int[] expected = byRank(row);
    Iterator<Map.Entry<Integer, Entry>> entries = got.entries().entrySet().iterator();
    for (int i = 0; i < k; i++) {
      Map.Entry<Integer, Entry> next = entries.next();
      int id = next.getKey();
      assertThat(next.getValue().rank()).as(how).isEqualTo(i + 1);
      if (!(Math.abs(logits[row][id] - logits[row][expected[i]]) <= gap)) {
        assertThat(id).as(how + ": id of rank " + (i + 1)).isEqualTo(expected[i]);
      }
      assertThat((double) next.getValue().logprob())
          .as(how)
          .isCloseTo(logprob(row, id), within(logprobTolerance));
    }
  }

  private double logprob(int row, int id) {
    double max = Double.NEGATIVE_INFINITY;
    for (float logit : logits[row]) {
      max = Math.max(max, logit);
    }
    double sum = 0;
    for (float logit : logits[row]) {
      sum += Math.exp(logit - max);
    }
    return logits[row][id] - max - Math.log(sum);
  }

  /**
   * How many tokens rank before one.
   *
   * @param certain count those alone that the gap puts there; else those too that may be there
   */
  private int ahead(int row, int id, boolean certain) {
    float own = logits[row][id];
    int count = 0;
    for (int other = 0; other < logits[row].length; other++) {
      double lead = (double) logits[row][other] - own;
      boolean before = lead > 0 || (lead == 0 && other < id);
      boolean near = Math.abs(lead) <= gap && gap > 0;
      count += other != id && (near ? !certain : before) ? 1 : 0;
    }
    return count;
  }

  private int[] byRank(int row) {
    List<Integer> ids = new ArrayList<>();
    for (int id = 0; id < logits[row].length; id++) {
      ids.add(id);
    }
    // Stable: of equal logits the lower id stays first.
    ids.sort((a, b) -> Float.compare(logits[row][b], logits[row][a]));
    return ids.stream().mapToInt(Integer::intValue).toArray();
  }
}
