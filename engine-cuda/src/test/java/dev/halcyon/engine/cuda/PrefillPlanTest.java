package dev.halcyon.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.cuda.PrefillPlan.Work;
import org.junit.jupiter.api.Test;

/** Which tiles a batch's sequences become, in which order, and when they are cut. */
class PrefillPlanTest {

  private static final int NO_WINDOW = 1 << 30;
  private static final int ALL_KEYS = 1 << 30;

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

  private static Work whole(int sequence, int firstRow) {
    return new Work(sequence, firstRow, 0, ALL_KEYS, -1);
  }

  @Test
  void sequencesOfOneRowHaveNoTiles() {
    Batch batch = batch(new int[] {1, 0, 1}, new int[] {9, 0, 700});

    assertThat(PrefillPlan.of(batch, 4, 128, NO_WINDOW, 100).work()).isEmpty();
  }

  @Test
  void tilesCoverEachRowsHeadsAndThoseThatSeeMostComeFirst() {
    // 33 rows of 4 heads are 132 packed rows, two tiles of 128: the first ends in row 31.
    Batch batch = batch(new int[] {2, 1, 33}, new int[] {80, 500, 97});

    // The tile of rows 0 to 31 sees 96 positions, that of row 32 all 97, the other sequence 80.
    assertThat(PrefillPlan.of(batch, 4, 128, NO_WINDOW, 0).work())
        .containsExactly(whole(2, 128), whole(2, 0), whole(0, 0));
  }

  @Test
  void tilesThatSeeAsMuchKeepTheirOrder() {
    // 7 heads of a row: 64 packed rows end inside row 9, so both first tiles see 10 positions.
    Batch batch = batch(new int[] {10, 10}, new int[] {10, 10});

    assertThat(PrefillPlan.of(batch, 7, 64, NO_WINDOW, 0).work())
        .containsExactly(whole(0, 0), whole(0, 64), whole(1, 0), whole(1, 64));
  }

  @Test
  void aLongContextIsCutWhereThereIsRoomForParts() {
    // 1000 positions are 16 tiles of keys: with three parts at least 256 long, 5, 5 and 6 of them.
    PrefillPlan plan =
        PrefillPlan.of(batch(new int[] {8, 2}, new int[] {1000, 40}), 4, 128, NO_WINDOW, 33);

    assertThat(plan.work())
        .containsExactly(
            new Work(0, 0, 0, 320, 0),
            new Work(0, 0, 320, 640, 1),
            new Work(0, 0, 640, 1024, 2),
            whole(1, 0));
    assertThat(plan.joins()).containsExactly(new Work(0, 0, 0, 3, -1));
    assertThat(plan.slots()).isEqualTo(3);
  }

  @Test
  void partsOfAWindowBeginWhereItDoes() {
    // Rows at 9992 to 9999 see from 9992 - 999 = 8993 on, in the tile of keys from 8960 on: 1040
    // positions, 17 tiles of keys, in four parts.
    PrefillPlan plan = PrefillPlan.of(batch(new int[] {8}, new int[] {10_000}), 4, 128, 1000, 33);

    assertThat(plan.work())
        .extracting(Work::firstKey)
        .containsExactly(8960, 8960 + 4 * 64, 8960 + 8 * 64, 8960 + 12 * 64);
    assertThat(plan.work().get(3).endKey()).isEqualTo(8960 + 17 * 64);
  }

  @Test
  void partsNeverNeedMoreSlotsThanPlaces() {
    for (int rows = 2; rows < 600; rows += 7) {
      int[] contexts = {rows + 5000, rows, rows + 300};
      PrefillPlan plan =
          PrefillPlan.of(batch(new int[] {rows, rows, rows}, contexts), 3, 64, NO_WINDOW, 33);
      assertThat(plan.slots()).isLessThanOrEqualTo(33);
    }
  }

  @Test
  void aDeviceThatIsFullCutsNothing() {
    // 40 tiles, and 33 places.
    PrefillPlan plan =
        PrefillPlan.of(batch(new int[] {1280}, new int[] {9000}), 4, 128, NO_WINDOW, 33);

    assertThat(plan.work()).hasSize(40);
    assertThat(plan.joins()).isEmpty();
  }
}
