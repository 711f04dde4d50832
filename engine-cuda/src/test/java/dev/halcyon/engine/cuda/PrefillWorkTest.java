package dev.halcyon.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.backend.Batch;
import org.junit.jupiter.api.Test;

/** Which tiles a batch's sequences become, and in which order. */
class PrefillWorkTest {

  /** A batch of sequences with so many rows and so long contexts; arrays longer than used. */
  private static Batch batch(int[] rows, int[] contexts) {
    int[] rowStart = new int[rows.length + 2];
    for (int s = 0; s < rows.length; s++) {
      rowStart[s + 1] = rowStart[s] + rows[s];
    }
    rowStart[rows.length + 1] = -7;
    int all = rowStart[rows.length];
    return new Batch(
        all, new int[all], new int[all], new int[all], rows.length, rowStart, contexts, null);
  }

  @Test
  void sequencesOfOneRowHaveNoTiles() {
    assertThat(PrefillWork.pairs(batch(new int[] {1, 0, 1}, new int[] {9, 0, 700}), 4, 128))
        .isEmpty();
  }

  @Test
  void tilesCoverEachRowsHeadsAndThoseThatSeeMostComeFirst() {
    // 33 rows of 4 heads are 132 packed rows, two tiles of 128: the first ends in row 31.
    int[] pairs = PrefillWork.pairs(batch(new int[] {2, 1, 33}, new int[] {80, 500, 97}), 4, 128);

    // The tile of rows 0 to 31 sees 96 positions, that of row 32 all 97, the other sequence 80.
    assertThat(pairs).containsExactly(2, 128, 2, 0, 0, 0);
  }

  @Test
  void tilesThatSeeAsMuchKeepTheirOrder() {
    // 7 heads of a row: 64 packed rows end inside row 9, so both first tiles see 10 positions.
    int[] pairs = PrefillWork.pairs(batch(new int[] {10, 10}, new int[] {10, 10}), 7, 64);

    assertThat(pairs).containsExactly(0, 0, 0, 64, 1, 0, 1, 64);
  }
}
