package dev.halcyon.engine.cuda;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.function.IntUnaryOperator;

/**
 * Scans of rows of logits: the sums of a softmax, a token's rank, the most likely tokens. Kernels
 * in logprobs.cu. A row is read once, by a block for each part of it, whatever is wanted; of lists
 * of more than {@link #LIST} tokens it is read again by one block, see select.cuh.
 */
final class LogprobOps {

  /** The most rows that one launch reduces; as logprobs.cu's MOST_ROWS. */
  static final int MOST_ROWS = 512;

  /** The longest list that one pass over a row gives, sorted; as ranks.cuh's LIST. */
  static final int LIST = 128;

  /** A row is of float32, where activations need not be. */
  static final int WIDE = 1;

  /** The sum of a row's softmax is wanted. */
  static final int SUM = 2;

  /** The bytes of a result, before its keys; as ranks.cuh's Result. */
  static final int RESULT_BYTES = 32;

  /** The bytes of a job; as ranks.cuh's Job. */
  static final int JOB_BYTES = 32;

  /** As ranks.cuh's constants of these names. */
  static final int SCAN_THREADS = 256;

  private static final int SCAN_PART = 8192;
  private static final int LIST_PARTS = 36;
  static final int SELECT_THREADS = 1024;

  /** The most elements by which a row may begin behind a 16-byte border. */
  private static final int MOST_SHIFT = 7;

  /** The bytes of a part's statistics and of the best keys of its threads. */
  private static final int PART_BYTES = 32;

  private static final int GROUPS_BYTES = SCAN_THREADS * Long.BYTES;

  private final Launch launch;
  private final Kernel scan;
  private final Kernel reduce;
  private final Kernel lists;

  LogprobOps(KernelLibrary library, Launch launch) {
    this.launch = launch;
    scan = library.kernel(KernelSource.LOGPROBS, "scan_rows");
    reduce = library.kernel(KernelSource.LOGPROBS, "reduce_rows");
    lists = library.kernel(KernelSource.LOGPROBS, "row_lists");
  }

  /** The parts of a row. */
  static int parts(int cols) {
    return (int) ((cols + (long) MOST_SHIFT + SCAN_PART - 1) / SCAN_PART);
  }

  /** The bytes that statistics of a row take. */
  static long scanBytes(int cols) {
    return (long) parts(cols) * (PART_BYTES + GROUPS_BYTES);
  }

  /** The same for a row to reduce: a list that takes no other pass, or none, takes less. */
  static long reduceBytes(int cols, int top) {
    return top == 0 || isLong(top, cols) ? (long) parts(cols) * PART_BYTES : scanBytes(cols);
  }

  /** Where the best keys of threads lie in the memory of a scan. */
  static long groups(long scratch, int jobs, int cols) {
    return scratch + (long) jobs * parts(cols) * PART_BYTES;
  }

  /** Whether lists of the most likely take another pass. */
  static boolean isLong(int top, int cols) {
    return top > LIST || top > 0 && parts(cols) > LIST_PARTS;
  }

  /**
   * Adds a job for {@link #scan}.
   *
   * @param flags {@link #WIDE}, {@link #SUM}
   * @param temperature of a second sum, or 0 for none
   */
  static void job(Words words, long row, int flags, float temperature) {
    words.i64(row).i32(flags).i32(-1).i32(0).f32(temperature).i64(0);
  }

  /**
   * Scans rows.
   *
   * @param jobs the address of count jobs, at most 65,535
   * @param scratch the address of {@code count * scanBytes(cols)} bytes
   */
  void scan(long jobs, int count, int cols, long scratch) {
    launch
        .of(scan)
        .address(jobs)
        .i32(cols)
        .address(scratch)
        .address(groups(scratch, count, cols))
        .run(parts(cols), count, 1, SCAN_THREADS, 0);
  }

  /**
   * Rows to reduce, one behind the other, as are their results; as logprobs.cu's Rows.
   *
   * @param address of the first row
   * @param wide whether they are of float32, and not of activations
   * @param targets whose rank is wanted in a row, or -1
   * @param top how many of the most likely are wanted
   * @param results the address of {@code RESULT_BYTES + top * 8} bytes for each row
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
      launch
          .i64(address)
          .i64(rowBytes)
          .i64(results)
          .i32(RESULT_BYTES + top * Long.BYTES)
          .i32(cols)
          .i32(wide ? 1 : 0)
          .i32(top);
      for (int row = 0; row < MOST_ROWS; row++) {
        launch.i32(row < count ? targets.applyAsInt(row) : -1);
      }
    }
  }

  /**
   * Scans rows, at most {@link #MOST_ROWS}, and writes their results.
   *
   * @param scratch the address of {@code count * reduceBytes(cols, top)} bytes
   * @param done the address of an integer for each row: 0, and again afterwards
   */
  void reduce(Rows rows, long scratch, long done) {
    rows.put(launch.of(reduce));
    launch
        .address(scratch)
        .address(groups(scratch, rows.count(), rows.cols()))
        .address(done)
        .run(parts(rows.cols()), rows.count(), 1, SCAN_THREADS, 0);
    if (isLong(rows.top(), rows.cols())) {
      rows.put(launch.of(lists));
      launch.run(rows.count(), SELECT_THREADS);
    }
  }

  /**
   * Reads a result's keys.
   *
   * @param at where the result begins
   * @return keys as RankKeys has them, in the order of rank
   */
  static long[] keys(ByteBuffer results, int at) {
    long[] keys = new long[results.getInt(at + 28)];
    for (int i = 0; i < keys.length; i++) {
      // The device compares without a sign.
      keys[i] = results.getLong(at + RESULT_BYTES + i * Long.BYTES) ^ Long.MIN_VALUE;
    }
    // Long lists come in no order.
    Arrays.sort(keys);
    return keys;
  }
}
