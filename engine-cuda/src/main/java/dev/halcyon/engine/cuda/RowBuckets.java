package dev.halcyon.engine.cuda;

import java.util.ArrayList;
import java.util.List;

/**
 * Numbers of rows that stand for all smaller ones down to the next: 1, 2, 4, 8, then multiples of 8
 * and, further up, four to each doubling. What is prepared for a number of rows, such as a recorded
 * step or the choice of an algorithm, is prepared for these.
 */
final class RowBuckets {

  private static final int FINEST = 8;
  private static final int TO_A_DOUBLING = 4;

  private RowBuckets() {}

  /** The least bucket that holds so many rows. */
  static int of(int rows) {
    if (rows < 1) {
      throw new IllegalArgumentException("rows must be at least 1, is " + rows);
    }
    if (rows <= FINEST) {
      return rows == 1 ? 1 : Integer.highestOneBit(rows - 1) << 1;
    }
    int step = Math.max(FINEST, Integer.highestOneBit(rows - 1) / TO_A_DOUBLING);
    return Math.addExact(rows, step - 1) / step * step;
  }

  /** The buckets of 1 to {@code most} rows, ascending; the last one is {@code most} itself. */
  static List<Integer> upTo(int most) {
    List<Integer> buckets = new ArrayList<>();
    for (int bucket = 1; bucket < most; bucket = of(bucket + 1)) {
      buckets.add(bucket);
    }
    buckets.add(most);
    return buckets;
  }
}
