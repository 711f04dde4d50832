package dev.halcyon.engine.logits;

/**
 * Reduces rows of logits that are already there to prompt logprobs: on the device, full logits in
 * chunks, each repeated on the host if the device has no room for it.
 */
public final class LogitsReduction {

  /** The most scratch that rows of the host take on the device. */
  public static final long SCRATCH_BYTES = 16L << 20;

  private final LogitsDevice device;

  public LogitsReduction(LogitsDevice device) {
    this.device = device;
  }

  /**
   * Reduces full logits. Another thread that closes them waits for one chunk at most.
   *
   * @param out gets an entry for each row
   * @throws IllegalArgumentException if there are not as many entries as rows
   * @throws IllegalStateException if the logits are closed, or gone with their engine; entries may
   *     be set then
   */
  public void reduce(FullLogits logits, PromptLogprobs out) {
    if (out.entries() != logits.rows()) {
      throw new IllegalArgumentException(
          "out must have an entry for each of "
              + logits.rows()
              + " rows of logits, has "
              + out.entries());
    }
    int chunk = chunkRows(logits.vocabSize());
    for (int row = 0; row < logits.rows(); row += chunk) {
      reduce(logits, row, Math.min(chunk, logits.rows() - row), out, row);
    }
    device.awaitReductions();
    if (out.target(logits.rows() - 1) == PromptLogprobs.UNKNOWN) {
      float[] last = new float[logits.vocabSize()];
      logits.read(logits.rows() - 1, last);
      out.retainLast(last);
    }
  }

  /** The rows of a chunk: as many as fit into the scratch memory, at least one. */
  static int chunkRows(int vocabSize) {
    return (int) Math.max(1, SCRATCH_BYTES / FullLogits.bytes(1, vocabSize));
  }

  /**
   * Reduces some rows; the device's reductions are to be awaited. Rows of the host take as much
   * device memory as they are large, at once.
   */
  void reduce(LogitsRows logits, int firstRow, int rows, PromptLogprobs out, int firstEntry) {
    int done = 0;
    while (done < rows) {
      int row = firstRow + done;
      int count = Math.min(rows - done, logits.contiguous(row));
      int entry = firstEntry + done;
      logits.whileOpen(() -> reduceChunk(logits, row, count, out, entry));
      done += count;
    }
  }

  private void reduceChunk(LogitsRows logits, int row, int count, PromptLogprobs out, int entry) {
    int vocabSize = logits.vocabSize();
    try {
      DeviceBuffer there = logits.onDevice(row, count);
      if (there != null) {
        device.reduce(there, logits.type(), count, vocabSize, out, entry);
      } else {
        try (DeviceBuffer own =
            device.memory().allocate(FullLogits.bytes(count, vocabSize), "logprob reduction")) {
          logits.load(row, count, own);
          device.reduce(own, logits.type(), count, vocabSize, out, entry);
        }
      }
    } catch (OutOfDeviceMemoryException e) {
      float[] values = new float[vocabSize];
      for (int i = 0; i < count; i++) {
        logits.read(row + i, values);
        new RowLogprobs(values).setEntry(out, entry + i);
      }
    }
  }
}
