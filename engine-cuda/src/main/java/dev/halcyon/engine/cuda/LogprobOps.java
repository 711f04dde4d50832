package dev.halcyon.engine.cuda;

import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * Scans of rows of logits for sampling: the sums of a softmax, and what the most likely tokens are
 * found by. Kernels in logprobs.cu. A row is read once, by a block for each part of it, whatever is
 * wanted; for lists of more than {@link #LIST} tokens it is read again by one block, see
 * select.cuh.
 */
final class LogprobOps {

  /** The longest list that one pass over a row gives, sorted; as ranks.cuh's LIST. */
  static final int LIST = 128;

  /** A row is of float32, where activations need not be. */
  static final int WIDE = 1;

  /** The sum of a row's softmax is wanted. */
  static final int SUM = 2;

  /** The bytes of a result, before its keys; as ranks.cuh's Result. */
  static final int RESULT_BYTES = 32;

  /** The bytes of a job; as ranks.cuh's Job. */
  static final int JOB_BYTES = 16;

  /** As ranks.cuh's constants of these names. */
  static final int SCAN_THREADS = 256;

  private static final int SCAN_PART = 8192;
  private static final int LIST_PARTS = 36;
  static final int SELECT_THREADS = 1024;

  /** The most elements by which a row may begin behind a 16-byte border. */
  private static final int MOST_SHIFT = 7;

  /** The bytes of a part's statistics and of the best keys of its threads. */
  static final int PART_BYTES = 32;

  private static final int GROUPS_BYTES = SCAN_THREADS * Long.BYTES;

  private final Launch launch;
  private final Kernel scan;

  LogprobOps(KernelLibrary library, Launch launch) {
    this.launch = launch;
    scan = library.kernel(KernelSource.LOGPROBS, "scan_rows");
  }

  /** The parts of a row. */
  static int parts(int cols) {
    return (int) ((cols + (long) MOST_SHIFT + SCAN_PART - 1) / SCAN_PART);
  }

  /** The bytes that statistics of a row take. */
  static long scanBytes(int cols) {
    return (long) parts(cols) * (PART_BYTES + GROUPS_BYTES);
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
    words.i64(row).i32(flags).f32(temperature);
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
