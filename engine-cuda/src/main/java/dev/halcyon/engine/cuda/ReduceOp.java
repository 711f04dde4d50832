package dev.halcyon.engine.cuda;

import dev.halcyon.engine.logits.LogitsType;
import dev.halcyon.engine.logits.PromptLogprobs;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * Rows of logits to prompt logprobs. The device finds sums, ranks and the most likely tokens; a
 * row's result of 32 bytes, and 8 for each of its top tokens, goes to the host, which takes the
 * logarithms. Exponentials are of float32; those of 32 elements are added up pairwise in float32,
 * and these sums in double precision.
 *
 * <p>Results wait on the device until somebody asks for them, so that the host need not wait
 * between projections. Scratch on the device: about 270 bytes for 1,024 columns of a row, and at
 * most {@link #SCRATCH_BYTES} unless a single row needs more; {@link #RESULT_BYTES} of results, or
 * those of one wave.
 */
final class ReduceOp implements AutoCloseable {

  /** 128 rows of 131072 columns with lists; without, more than {@link RowReduction#MOST_ROWS}. */
  private static final long SCRATCH_BYTES = 4608L << 10;

  private static final long RESULT_BYTES = 512L << 10;

  private final RowReduction reduction;
  private final CudaMemory memory;
  private final DeviceScratch scratch;
  private final DeviceScratch results;
  private final ResultBlock block;
  private final List<Wave> waves = new ArrayList<>();
  private CudaBuffer counters;
  private long written;

  /**
   * Rows whose results wait on the device.
   *
   * @param at where they begin among the results
   */
  private record Wave(PromptLogprobs out, int firstEntry, int rows, long at) {

    int rowBytes() {
      return RowReduction.resultBytes(out.topK());
    }
  }

  ReduceOp(RowReduction reduction, CudaContext context, CudaMemory memory) {
    this.reduction = reduction;
    this.memory = memory;
    scratch = new DeviceScratch(memory, "logprob reduction");
    results = new DeviceScratch(memory, "results of logprob reductions");
    block = new ResultBlock(context);
  }

  /**
   * Starts to reduce rows; {@link #await} sets their entries.
   *
   * @param type float32 or that of activations
   * @throws dev.halcyon.engine.logits.OutOfDeviceMemoryException if there is no room for scratch
   */
  void run(long logits, LogitsType type, int rows, int cols, PromptLogprobs out, int firstEntry) {
    int resultBytes = RowReduction.resultBytes(out.topK());
    long rowBytes = RowReduction.scratchBytes(cols, out.topK());
    long most = Math.min(SCRATCH_BYTES / rowBytes, RESULT_BYTES / resultBytes);
    int count = (int) Math.max(1, Math.min(Math.min(rows, most), RowReduction.MOST_ROWS));
    long scan = scratch.atLeast(count * rowBytes);
    reserveResults((long) count * resultBytes);
    for (int done = 0; done < rows; done += count) {
      Wave wave = wave(out, firstEntry + done, Math.min(count, rows - done));
      start(logits + (long) done * cols * type.bytes(), type, cols, wave, scan);
    }
  }

  /** Makes room for the results of a wave, behind those that wait if it can be there. */
  private void reserveResults(long bytes) {
    if (bytes > RESULT_BYTES) {
      // They would be gone if the memory had to grow.
      await();
    }
    results.atLeast(Math.max(RESULT_BYTES, bytes));
    if (counters == null) {
      counters =
          memory.allocateOwnZeroed(RowReduction.MOST_ROWS * Integer.BYTES, "counters of rows");
    }
  }

  private Wave wave(PromptLogprobs out, int firstEntry, int rows) {
    long bytes = (long) rows * RowReduction.resultBytes(out.topK());
    if (written > 0 && written + bytes > Math.max(RESULT_BYTES, bytes)) {
      await();
    }
    Wave wave = new Wave(out, firstEntry, rows, written);
    written += bytes;
    waves.add(wave);
    return wave;
  }

  private void start(long logits, LogitsType type, int cols, Wave wave, long scan) {
    RowReduction.Rows rows =
        new RowReduction.Rows(
            logits,
            type == LogitsType.F32,
            Math.multiplyExact(cols, type.bytes()),
            cols,
            wave.rows(),
            row -> Math.max(-1, wave.out().target(wave.firstEntry() + row)),
            wave.out().topK(),
            results.atLeast(0) + wave.at());
    reduction.run(rows, scan, counters.address());
  }

  /** Waits for all that was started, and sets its entries. */
  void await() {
    if (waves.isEmpty()) {
      return;
    }
    try {
      // The copy waits for the kernels, and the host for the copy.
      ByteBuffer read = block.download(results.atLeast(0), (int) written);
      for (Wave wave : waves) {
        for (int row = 0; row < wave.rows(); row++) {
          int at = (int) wave.at() + row * wave.rowBytes();
          RowResult.setEntry(read, at, wave.out(), wave.firstEntry() + row);
        }
      }
    } finally {
      waves.clear();
      written = 0;
    }
  }

  @Override
  public void close() {
    if (counters != null) {
      counters.close();
      counters = null;
    }
    scratch.close();
    results.close();
    block.close();
  }
}
