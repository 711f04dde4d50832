package dev.halcyon.engine.cuda;

import dev.halcyon.engine.logits.PromptLogprobs;
import dev.halcyon.engine.logits.RankKeys;
import java.nio.ByteBuffer;

/**
 * Rows of float32 logits to prompt logprobs. The device finds sums, ranks and the most likely
 * tokens; a row's result of 32 bytes, and 8 for each of its top tokens, goes to the host, which
 * takes the logarithms. Exponentials are of float32, added up in double precision.
 *
 * <p>Scratch on the device: about 270 bytes for 1,024 columns of a row, and at most {@link
 * #SCRATCH_BYTES} unless a single row needs more.
 */
final class ReduceOp implements AutoCloseable {

  private static final long SCRATCH_BYTES = 4L << 20;

  private final LogprobOps logprobs;
  private final UploadRing uploads;
  private final DeviceScratch scratch;
  private final ResultBlock results;
  private final Words words = new Words();

  ReduceOp(LogprobOps logprobs, CudaContext context, CudaMemory memory, UploadRing uploads) {
    this.logprobs = logprobs;
    this.uploads = uploads;
    scratch = new DeviceScratch(memory, "logprob reduction");
    results = new ResultBlock(context);
  }

  /**
   * Reduces rows; the entries are set on return.
   *
   * @throws dev.halcyon.engine.logits.OutOfDeviceMemoryException if there is no room for scratch
   */
  void run(long logits, int rows, int cols, PromptLogprobs out, int firstEntry) {
    long rowBytes =
        LogprobOps.scanBytes(cols) + LogprobOps.JOB_BYTES + (long) resultBytes(out.topK());
    int wave = (int) Math.max(1, Math.min(rows, SCRATCH_BYTES / rowBytes));
    long memory = scratch.atLeast(wave * rowBytes);
    for (int done = 0; done < rows; done += wave) {
      int count = Math.min(wave, rows - done);
      long from = logits + (long) done * cols * Float.BYTES;
      reduce(from, count, cols, out, firstEntry + done, memory);
    }
  }

  private static int resultBytes(int top) {
    return LogprobOps.RESULT_BYTES + top * Long.BYTES;
  }

  private void reduce(
      long logits, int rows, int cols, PromptLogprobs out, int firstEntry, long memory) {
    long scan = memory + (long) rows * LogprobOps.JOB_BYTES;
    long result = scan + rows * LogprobOps.scanBytes(cols);
    int each = resultBytes(out.topK());
    words.clear();
    for (int row = 0; row < rows; row++) {
      LogprobOps.job(
          words,
          logits + (long) row * cols * Float.BYTES,
          Math.max(-1, out.target(firstEntry + row)),
          out.topK(),
          result + (long) row * each);
    }
    uploads.to(memory).ints(words.array(), 0, words.size()).end();
    logprobs.scan(memory, rows, cols, scan);
    logprobs.results(memory, rows, cols, scan, out.topK());
    // Complete from here on: the copy waits for the kernels, and the host for the copy.
    ByteBuffer read = results.download(result, rows * each);
    for (int row = 0; row < rows; row++) {
      setEntry(read, row * each, out, firstEntry + row);
    }
  }

  private static void setEntry(ByteBuffer result, int at, PromptLogprobs out, int entry) {
    float max = result.getFloat(at + 8);
    double logOfSum = Math.log(result.getDouble(at));
    if (out.target(entry) == PromptLogprobs.UNKNOWN) {
      out.setLastNormalizer(max, logOfSum);
    } else {
      float logprob = logprob(result.getFloat(at + 12), max, logOfSum);
      out.setTarget(entry, logprob, out.ranked() ? result.getInt(at + 16) + 1 : 0);
    }
    if (out.topK() > 0) {
      long[] keys = LogprobOps.keys(result, at);
      int[] ids = new int[keys.length];
      float[] values = new float[keys.length];
      for (int i = 0; i < keys.length; i++) {
        ids[i] = RankKeys.id(keys[i]);
        values[i] = logprob(RankKeys.logit(keys[i]), max, logOfSum);
      }
      out.setTop(entry, ids, values);
    }
  }

  /** As the host computes it. */
  static float logprob(float logit, float max, double logOfSum) {
    return (float) ((double) logit - max - logOfSum);
  }

  @Override
  public void close() {
    scratch.close();
    results.close();
  }
}
