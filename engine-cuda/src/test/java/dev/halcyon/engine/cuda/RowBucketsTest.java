package dev.halcyon.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;

class RowBucketsTest {

  @Test
  void areTheLeastOfAFewSizes() {
    int[][] expected = {
      {1, 1},
      {2, 2},
      {3, 4},
      {4, 4},
      {5, 8},
      {8, 8},
      {9, 16},
      {16, 16},
      {17, 24},
      {25, 32},
      {33, 40},
      {64, 64},
      {65, 80},
      {128, 128},
      {129, 160},
      {257, 320},
      {1000, 1024},
      {1025, 1280}
    };
    for (int[] pair : expected) {
      assertThat(RowBuckets.of(pair[0])).as("%d rows", pair[0]).isEqualTo(pair[1]);
    }
  }

  @Test
  void holdEveryNumberWithLittleToSpare() {
    int last = 0;
    for (int rows = 1; rows <= 20_000; rows++) {
      int bucket = RowBuckets.of(rows);
      assertThat(bucket).isGreaterThanOrEqualTo(Math.max(rows, last));
      assertThat(RowBuckets.of(bucket)).isEqualTo(bucket);
      // At most a quarter more, but for the smallest, which are rounded up by less than 8.
      assertThat(bucket - rows).isLessThan(Math.max(8, rows / 4 + 1));
      last = bucket;
    }
    assertThat(RowBuckets.of(Integer.MAX_VALUE >> 1)).isPositive();
    assertThatThrownBy(() -> RowBuckets.of(0)).isInstanceOf(IllegalArgumentException.class);
  }

  @Test
  void endWithTheMostThatIsAskedFor() {
    assertThat(RowBuckets.upTo(1)).containsExactly(1);
    assertThat(RowBuckets.upTo(6)).containsExactly(1, 2, 4, 6);
    assertThat(RowBuckets.upTo(20)).containsExactly(1, 2, 4, 8, 16, 20);
    assertThat(RowBuckets.upTo(40)).containsExactly(1, 2, 4, 8, 16, 24, 32, 40);
  }
}
