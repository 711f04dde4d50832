package dev.halcyon.engine.executor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.halcyon.engine.GenerationOutput;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.TokenLogprobs;
import java.util.List;

/**
 * What a result says, copied out of it.
 *
 * @param ids of each output
 * @param logits rows of the prompt, or null
 * @param logprobs of the prompt, or null
 */
record Answer(List<List<Integer>> ids, float[][] logits, List<TokenLogprobs> logprobs) {

  private static final float ROUNDING = 1e-5f;

  static Answer of(GenerationResult result) {
    return new Answer(
        result.outputs().stream().map(GenerationOutput::tokenIds).toList(),
        rows(result.contextLogits()),
        result.promptLogprobs() == null ? null : List.copyOf(result.promptLogprobs()));
  }

  static float[][] rows(LogitsView view) {
    if (view == null) {
      return null;
    }
    float[][] rows = new float[view.rows()][view.vocabSize()];
    for (int i = 0; i < rows.length; i++) {
      view.copyRow(i, rows[i]);
    }
    return rows;
  }

  void assertSame(Answer expected) {
    assertThat(ids).isEqualTo(expected.ids);
    assertSameRows(logits, expected.logits);
    assertSameLogprobs(expected.logprobs);
  }

  static void assertSameRows(float[][] rows, float[][] expected) {
    if (expected == null) {
      assertThat(rows).isNull();
      return;
    }
    assertThat(rows.length).isEqualTo(expected.length);
    for (int i = 0; i < rows.length; i++) {
      assertThat(rows[i].length).isEqualTo(expected[i].length);
      for (int j = 0; j < rows[i].length; j++) {
        if (!(Math.abs(rows[i][j] - expected[i][j]) <= ROUNDING)) {
          assertThat(rows[i][j])
              .as("row %d, entry %d", i, j)
              .isCloseTo(expected[i][j], within(ROUNDING));
        }
      }
    }
  }

  void assertSameLogprobs(List<TokenLogprobs> expected) {
    if (expected == null) {
      assertThat(logprobs).isNull();
      return;
    }
    assertThat(logprobs).hasSameSizeAs(expected);
    for (int i = 0; i < logprobs.size(); i++) {
      TokenLogprobs got = logprobs.get(i);
      assertThat(got.tokenId()).isEqualTo(expected.get(i).tokenId());
      assertThat(got.entries().keySet()).isEqualTo(expected.get(i).entries().keySet());
      for (int id : got.entries().keySet()) {
        TokenLogprobs.Entry entry = got.entries().get(id);
        assertThat(entry.rank()).isEqualTo(expected.get(i).entries().get(id).rank());
        assertThat(entry.logprob())
            .isCloseTo(expected.get(i).entries().get(id).logprob(), within(ROUNDING));
      }
    }
  }
}
