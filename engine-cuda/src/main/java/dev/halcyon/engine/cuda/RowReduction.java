package dev.halcyon.engine.cuda;

import java.util.Arrays;
import java.util.function.IntUnaryOperator;

/** Starts the kernels of reduce.cu: rows of logits to sums, ranks and the most likely tokens. */
final class RowReduction {

  /** The most rows that one launch takes; as reduce.cu's MOST_ROWS. */
  static final int MOST_ROWS = 512;

  /** Blocks that a multiprocessor runs at once; as reduce.cu's launch bounds. */
  private static final int BLOCKS = 4;

  private static final int WIDE_BLOCKS = 2;

  private final Launch launch;
  private final int multiprocessors;
  private final Kernel narrow;
  private final Kernel narrowLists;
  private final Kernel wide;
  private final Kernel wideLists;

  RowReduction(KernelLibrary library, Launch launch, int multiprocessors) {
    this.launch = launch;
    this.multiprocessors = multiprocessors;
    narrow = library.kernel(KernelSource.REDUCE, "reduce_rows");
    narrowLists = library.kernel(KernelSource.REDUCE, "row_lists");
    wide = library.kernel(KernelSource.REDUCE, "reduce_wide_rows");
    wideLists = library.kernel(KernelSource.REDUCE, "wide_row_lists");
  }

  /**
   * Rows, one behind the other, as are their results; as reduce.cu's Rows.
   *
   * @param address of the first row
   * @param wide whether they are of float32, and not of activations
   * @param targets whose rank is wanted in a row, or -1
   * @param top how many of the most likely are wanted
   * @param results the address of {@link #resultBytes} for each row
   */
  record Rows(
      long address,
      boolean wide,
      int rowBytes,
      int cols,
      int count,
      IntUnaryOperator targets,
      int top,
      long results) {

    private void put(Launch launch) {
      int[] ids = new int[count];
      Arrays.setAll(ids, targets);
      launch
          .i64(address)
          .i64(rowBytes)
          .i64(results)
          .i32(resultBytes(top))
          .i32(cols)
          .i32(top)
          .ints(ids, count, MOST_ROWS);
    }
  }

  /** The bytes of a row's result: LogprobOps reads its keys. */
  static int resultBytes(int top) {
    return LogprobOps.RESULT_BYTES + top * Long.BYTES;
  }

  /** The bytes that statistics of a row take, and what its most likely tokens are found by. */
  static long scratchBytes(int cols, int top) {
    return top == 0 || LogprobOps.isLong(top, cols)
        ? (long) LogprobOps.parts(cols) * LogprobOps.PART_BYTES
        : LogprobOps.scanBytes(cols);
  }

  /**
   * Writes the results of rows, at most {@link #MOST_ROWS}.
   *
   * @param scratch the address of {@code count * scratchBytes(cols, top)} bytes
   * @param done the address of an integer for each row: 0, and again afterwards
   */
  void run(Rows rows, long scratch, long done) {
    int parts = LogprobOps.parts(rows.cols());
    int resident = multiprocessors * (rows.wide() ? WIDE_BLOCKS : BLOCKS);
    int blocks = Math.max(1, Math.min(parts, resident / Math.max(1, rows.count())));
    rows.put(launch.of(rows.wide() ? wide : narrow));
    launch
        .address(scratch)
        .address(LogprobOps.groups(scratch, rows.count(), rows.cols()))
        .i32(parts)
        .address(done)
        .run(blocks, rows.count(), 1, LogprobOps.SCAN_THREADS, 0);
    if (LogprobOps.isLong(rows.top(), rows.cols())) {
      rows.put(launch.of(rows.wide() ? wideLists : narrowLists));
      launch.run(rows.count(), LogprobOps.SELECT_THREADS);
    }
  }
}
