package dev.halcyon.engine.backend;

import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;

class BatchTest {

  private static final KvShape SHAPE = new KvShape(1, 4, 2, 1, 8);

  /** Two sequences: rows at positions 3 and 4 of one, the first row of another. */
  private static final Batch GOOD =
      new Batch(
          3,
          new int[3],
          new int[] {3, 4, 0},
          new int[] {3, 6, 4},
          2,
          new int[] {0, 2, 3},
          new int[] {5, 1},
          new int[][] {{0, 1, 3}, {2}});

  @Test
  void aBatchThatFitsIsTaken() {
    assertThatCode(GOOD::requireConsistent).doesNotThrowAnyException();
    assertThatCode(() -> GOOD.requireFits(SHAPE)).doesNotThrowAnyException();
  }

  @Test
  void rowsThatAreKeptNowhereFit() {
    assertThatCode(() -> slots(-1, -1, -1).requireFits(SHAPE)).doesNotThrowAnyException();
  }

  @Test
  void sequencesOfPaddingHaveNoContextAndAreKeptNowhere() {
    Batch padding = padding(-1, 0);
    assertThatCode(padding::requireConsistent).doesNotThrowAnyException();
    assertThatCode(() -> padding.requireFits(SHAPE)).doesNotThrowAnyException();
    inconsistent(b -> padding(4, 0), "Row 0 has position 0");
    inconsistent(b -> padding(-1, 1), "Row 0 has position 1");
  }

  private static Batch padding(int slot, int position) {
    return new Batch(
        1,
        new int[1],
        new int[] {position},
        new int[] {slot},
        1,
        new int[] {0, 1},
        new int[] {0},
        new int[][] {{}});
  }

  @Test
  void arraysThatDisagreeAreRefused() {
    inconsistent(b -> rows(4), "rowStart must begin with 0");
    inconsistent(b -> rows(-1), "must not be negative");
    inconsistent(b -> starts(1, 2, 3), "rowStart must begin with 0");
    inconsistent(b -> starts(0, 4, 3), "rowStart must not fall");
    inconsistent(b -> starts(0, 3), "an element for each sequence");
    inconsistent(b -> positions(3, 5, 0), "Row 1 has position 5");
    inconsistent(b -> positions(3, 4, -1), "Row 2 has position -1");
    inconsistent(b -> positions(3, 4), "an element for each row");
  }

  @Test
  void whatLiesOutsideOfTheCacheIsRefused() {
    unfit(slots(3, 8, 4), "Row 1 has slot 8 of 8");
    unfit(slots(3, -2, 4), "Row 1 has slot -2");
    unfit(tables(new int[][] {{0, 1}, {2}}), "Sequence 0 needs a table of 3 blocks");
    unfit(tables(new int[][] {{0, 1, 4}, {2}}), "Sequence 0 has block 4 of 4");
    unfit(tables(new int[][] {{0, 1, 3}, {-1}}), "Sequence 1 has block -1");
  }

  private static void inconsistent(UnaryOperator<Batch> change, String said) {
    assertThatThrownBy(() -> change.apply(GOOD).requireConsistent())
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining(said);
  }

  private static void unfit(Batch batch, String said) {
    assertThatThrownBy(() -> batch.requireFits(SHAPE))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining(said);
  }

  private static Batch rows(int rows) {
    return new Batch(
        rows,
        new int[4],
        new int[4],
        new int[4],
        2,
        GOOD.rowStart(),
        GOOD.contextLength(),
        GOOD.blockTables());
  }

  private static Batch starts(int... starts) {
    return of(GOOD.positions(), GOOD.slots(), starts, GOOD.blockTables());
  }

  private static Batch positions(int... positions) {
    return of(positions, GOOD.slots(), GOOD.rowStart(), GOOD.blockTables());
  }

  private static Batch slots(int... slots) {
    return of(GOOD.positions(), slots, GOOD.rowStart(), GOOD.blockTables());
  }

  private static Batch tables(int[][] tables) {
    return of(GOOD.positions(), GOOD.slots(), GOOD.rowStart(), tables);
  }

  private static Batch of(int[] positions, int[] slots, int[] starts, int[][] tables) {
    return new Batch(3, new int[3], positions, slots, 2, starts, GOOD.contextLength(), tables);
  }
}
