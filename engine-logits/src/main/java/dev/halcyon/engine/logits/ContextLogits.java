package dev.halcyon.engine.logits;

/**
 * What a request has of its prompt's logits so far: full rows, compact logprobs, or both. Rows come
 * in the order of their positions, each once, by whatever path; then the first generated token.
 */
public final class ContextLogits implements AutoCloseable {

  private final LogitsDevice device;
  private final LogitsReduction reduction;
  private final int promptLength;
  private final int vocabSize;
  private final PromptLogprobs logprobs;
  private FullLogits full;
  private int scored;

  /**
   * @param full storage of the whole prompt, or null
   * @param logprobs or null
   */
  ContextLogits(
      LogitsDevice device,
      int promptLength,
      int vocabSize,
      FullLogits full,
      PromptLogprobs logprobs) {
    this.device = device;
    this.reduction = new LogitsReduction(device);
    this.promptLength = promptLength;
    this.vocabSize = vocabSize;
    this.full = full;
    this.logprobs = logprobs;
  }

  /** The number of rows there are to come in all. */
  public int promptLength() {
    return promptLength;
  }

  /** The position of the next row; rows before it are there. */
  public int scored() {
    return scored;
  }

  /** Whether every row is there. */
  public boolean complete() {
    return scored == promptLength;
  }

  /** The compact logprobs, or null if they were not asked for; complete once this is. */
  public PromptLogprobs logprobs() {
    return logprobs;
  }

  /** The full rows, or null if they were not asked for or were taken. */
  FullLogits full() {
    return full;
  }

  /**
   * Hands the full rows over: they are the caller's to close.
   *
   * @return null if they were not asked for, or taken before
   * @throws IllegalStateException if rows are missing
   */
  public FullLogits takeFull() {
    if (!complete()) {
      throw new IllegalStateException(scored + " of " + promptLength + " rows are there");
    }
    FullLogits taken = full;
    full = null;
    return taken;
  }

  /** Frees the full rows, unless they were taken. Closing twice is harmless. */
  @Override
  public void close() {
    if (full != null) {
      full.close();
      full = null;
    }
  }

  /** Requires that rows fit behind those that are there. */
  void requireNext(int position, int rows) {
    if (position != scored || rows < 1 || rows > promptLength - scored) {
      throw new IllegalStateException(
          rows
              + " rows from position "
              + position
              + " don't follow the "
              + scored
              + " scored ones of "
              + promptLength);
    }
  }

  /** Takes the next rows, which were projected to where they stay. */
  void acceptInPlace(int rows) {
    reduce(full, scored, rows);
    scored += rows;
  }

  /**
   * Takes the next rows.
   *
   * @param rows as a head put them out
   * @param scratch float32 rows on the device for their way to the host; null to do without
   */
  void accept(DeviceRows rows, DeviceBuffer scratch) {
    if (full != null && rows.type() != LogitsType.F32 && full.onDevice()) {
      convertInto(full, rows);
      reduce(full, scored, rows.rows());
    } else {
      if (full != null) {
        store(rows, scratch);
      }
      reduce(rows, 0, rows.rows());
    }
    scored += rows.rows();
  }

  /**
   * Takes the next rows, which were reduced.
   *
   * @param last the prompt's last row if these rows end it; kept until the next token is known
   */
  void acceptReduced(int rows, float[] last) {
    scored += rows;
    if (complete()) {
      retainLast(last);
    }
  }

  /** Sets the entry of a row that is yet to be accepted, the given number of rows ahead. */
  void reduceAhead(DeviceRows row, int ahead) {
    reduction.reduce(row, 0, 1, logprobs, scored + ahead);
  }

  private void convertInto(FullLogits storage, DeviceRows rows) {
    int done = 0;
    while (done < rows.rows()) {
      int run = Math.min(rows.rows() - done, storage.contiguous(scored + done));
      rows.load(done, run, storage.onDevice(scored + done, run));
      done += run;
    }
  }

  private void store(DeviceRows rows, DeviceBuffer scratch) {
    if (rows.type() == LogitsType.F32) {
      full.store(scored, rows.rows(), rows.buffer());
    } else if (scratch != null) {
      int chunk = (int) (scratch.bytes() / FullLogits.bytes(1, vocabSize));
      for (int row = 0; row < rows.rows(); row += chunk) {
        int count = Math.min(chunk, rows.rows() - row);
        rows.load(row, count, scratch);
        full.store(scored + row, count, scratch);
      }
    } else {
      float[] values = new float[vocabSize];
      for (int row = 0; row < rows.rows(); row++) {
        rows.read(row, values);
        full.write(scored + row, values);
      }
    }
  }

  private void reduce(LogitsRows from, int firstRow, int rows) {
    if (logprobs == null) {
      return;
    }
    reduction.reduce(from, firstRow, rows, logprobs, scored);
    if (scored + rows == promptLength) {
      float[] last = new float[vocabSize];
      from.read(firstRow + rows - 1, last);
      retainLast(last);
    }
  }

  /** All rows are reduced, or being so: waits until their logprobs are set. */
  private void retainLast(float[] last) {
    device.awaitReductions();
    logprobs.retainLast(last);
  }
}
