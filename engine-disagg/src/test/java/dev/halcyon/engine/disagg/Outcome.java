package dev.halcyon.engine.disagg;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationDelta;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationOutput;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.TokenLogprobs;
import dev.halcyon.engine.Usage;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** All that a caller gets of a request, copied out of its deltas and its result. */
record Outcome(
    List<Output> outputs,
    List<Integer> promptIds,
    List<int[]> contextLogits,
    List<TokenLogprobs> promptLogprobs,
    Usage usage) {

  /** Logits as bits, so that equal means equal. */
  record Output(
      List<Integer> ids,
      String text,
      FinishReason finishReason,
      String stopString,
      Integer stopTokenId,
      List<TokenLogprobs> logprobs,
      List<int[]> logits) {}

  /** Waits for a request, and requires that its deltas say what its result says. */
  static Outcome of(GenerationHandle handle) {
    List<GenerationDelta> deltas = new ArrayList<>();
    List<List<int[]>> streamed = new ArrayList<>();
    try (var stream = handle.stream()) {
      stream.forEach(
          delta -> {
            deltas.add(delta);
            streamed.add(rows(delta.generationLogits()));
          });
    }
    try (GenerationResult result = handle.await()) {
      Outcome outcome = of(result);
      outcome.requireStreamed(deltas, streamed);
      return outcome;
    }
  }

  static Outcome of(GenerationResult result) {
    return new Outcome(
        result.outputs().stream().map(Outcome::output).toList(),
        result.promptIds(),
        rows(result.contextLogits()),
        result.promptLogprobs() == null ? null : List.copyOf(result.promptLogprobs()),
        result.usage());
  }

  private static Output output(GenerationOutput output) {
    return new Output(
        output.tokenIds(),
        output.text(),
        output.finishReason(),
        output.stopString(),
        output.stopTokenId(),
        output.logprobs(),
        rows(output.generationLogits()));
  }

  private static List<int[]> rows(LogitsView view) {
    if (view == null) {
      return null;
    }
    List<int[]> rows = new ArrayList<>();
    float[] row = new float[view.vocabSize()];
    for (int i = 0; i < view.rows(); i++) {
      view.copyRow(i, row);
      int[] bits = new int[row.length];
      for (int j = 0; j < bits.length; j++) {
        bits[j] = Float.floatToRawIntBits(row[j]);
      }
      rows.add(bits);
    }
    return rows;
  }

  private void requireStreamed(List<GenerationDelta> deltas, List<List<int[]>> streamed) {
    for (int index = 0; index < outputs.size(); index++) {
      StringBuilder text = new StringBuilder();
      List<Integer> ids = new ArrayList<>();
      List<TokenLogprobs> logprobs = new ArrayList<>();
      List<int[]> logits = new ArrayList<>();
      FinishReason reason = null;
      for (int i = 0; i < deltas.size(); i++) {
        GenerationDelta delta = deltas.get(i);
        if (delta.index() == index) {
          assertThat(reason).as("nothing follows the last delta").isNull();
          text.append(delta.text());
          ids.addAll(delta.tokenIds());
          logprobs.addAll(delta.logprobs() == null ? List.of() : delta.logprobs());
          logits.addAll(streamed.get(i) == null ? List.of() : streamed.get(i));
          reason = delta.finishReason();
          if (delta.generationLogits() != null) {
            assertThat(streamed.get(i)).as("a row for each new id").hasSameSizeAs(delta.tokenIds());
          }
        }
      }
      Output output = outputs.get(index);
      assertThat(text.toString()).isEqualTo(output.text());
      assertThat(ids).isEqualTo(output.ids());
      assertThat(logprobs).isEqualTo(output.logprobs() == null ? List.of() : output.logprobs());
      assertSameRows(
          "streamed logits", output.logits() == null ? List.of() : output.logits(), logits, 0);
      assertThat(reason).isEqualTo(output.finishReason());
    }
    for (int i = 0; i < deltas.size(); i++) {
      assertThat(deltas.get(i).contextLogits() != null).isEqualTo(i == 0 && contextLogits != null);
      assertThat(deltas.get(i).promptLogprobs() != null)
          .isEqualTo(i == 0 && promptLogprobs != null);
    }
  }

  void assertSame(Outcome whole) {
    assertSame(whole, 0);
  }

  /**
   * Requires equal outcomes.
   *
   * @param rounding how far values may lie apart, as part of the largest logit of a row; 0 where
   *     they have to be the same bit by bit
   */
  void assertSame(Outcome whole, double rounding) {
    assertThat(promptIds).isEqualTo(whole.promptIds);
    assertThat(outputs).hasSameSizeAs(whole.outputs);
    for (int i = 0; i < outputs.size(); i++) {
      Output mine = outputs.get(i);
      Output other = whole.outputs.get(i);
      assertThat(mine.ids).as("ids").isEqualTo(other.ids);
      assertThat(mine.text).as("text").isEqualTo(other.text);
      assertThat(mine.finishReason).as("finish reason").isEqualTo(other.finishReason);
      assertThat(mine.stopString).as("stop string").isEqualTo(other.stopString);
      assertThat(mine.stopTokenId).as("stop id").isEqualTo(other.stopTokenId);
      assertSameLogprobs("logprobs", other.logprobs, mine.logprobs, rounding);
      assertSameRows("generation logits", other.logits, mine.logits, rounding);
    }
    assertSameRows("context logits", whole.contextLogits, contextLogits, rounding);
    assertSameLogprobs("prompt logprobs", whole.promptLogprobs, promptLogprobs, rounding);
    assertThat(usage).as("usage").isEqualTo(whole.usage);
  }

  private static void assertSameRows(
      String what, List<int[]> expected, List<int[]> rows, double rounding) {
    if (expected == null) {
      assertThat(rows).as(what).isNull();
      return;
    }
    assertThat(rows).as(what).hasSameSizeAs(expected);
    for (int i = 0; i < rows.size(); i++) {
      if (rounding == 0) {
        assertThat(Arrays.equals(rows.get(i), expected.get(i))).as("%s, row %d", what, i).isTrue();
      } else {
        assertThat(distance(rows.get(i), expected.get(i)))
            .as("%s, row %d", what, i)
            .isLessThanOrEqualTo(rounding);
      }
    }
  }

  /** How far two rows lie apart at most, as part of the largest value. */
  private static double distance(int[] row, int[] expected) {
    double largest = 0;
    double distance = 0;
    for (int i = 0; i < expected.length; i++) {
      float value = Float.intBitsToFloat(expected[i]);
      largest = Math.max(largest, Math.abs(value));
      distance = Math.max(distance, Math.abs(Float.intBitsToFloat(row[i]) - value));
    }
    return distance / largest;
  }

  private static void assertSameLogprobs(
      String what, List<TokenLogprobs> expected, List<TokenLogprobs> logprobs, double rounding) {
    if (rounding == 0 || expected == null) {
      assertThat(logprobs).as(what).isEqualTo(expected);
      return;
    }
    assertThat(logprobs).as(what).hasSameSizeAs(expected);
    for (int i = 0; i < expected.size(); i++) {
      TokenLogprobs entry = logprobs.get(i);
      TokenLogprobs other = expected.get(i);
      assertThat(entry.tokenId()).as("%s, %d", what, i).isEqualTo(other.tokenId());
      // Logits of a row lie within some tens of each other, and a logprob is a difference of two.
      assertThat((double) entry.chosen().logprob())
          .as("%s, %d", what, i)
          .isCloseTo(other.chosen().logprob(), within(100 * rounding));
      assertThat(entry.entries()).as("%s, %d", what, i).hasSameSizeAs(other.entries());
    }
  }
}
