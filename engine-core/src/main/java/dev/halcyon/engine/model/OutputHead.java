package dev.halcyon.engine.model;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.Matrix;
import dev.halcyon.engine.backend.Owned;
import dev.halcyon.engine.logits.DeviceBuffer;

/**
 * The projection from hidden rows to logits, for the rows that are wanted. It has a workspace for a
 * bounded number of rows, owned by its {@link Decoder}.
 */
public final class OutputHead {

  private final ModelConfig config;
  private final Backend backend;
  private final Matrix projection;
  private final int maxRows;
  private final DeviceBuffer gathered;
  private final DeviceBuffer logits;

  OutputHead(ModelConfig config, Backend backend, Matrix projection, int maxRows, Owned owned) {
    this.config = config;
    this.backend = backend;
    this.projection = projection;
    this.maxRows = maxRows;
    this.gathered =
        Scratch.buffer(backend, maxRows, config.hiddenSize(), "gathered hidden rows", owned);
    this.logits = Scratch.buffer(backend, maxRows, config.vocabSize(), "logits", owned);
  }

  static long bytes(ModelConfig config, Backend backend, int maxRows) {
    return backend.activationBytes(maxRows, config.hiddenSize())
        + backend.activationBytes(maxRows, config.vocabSize());
  }

  /** The most rows of one projection. */
  public int maxRows() {
    return maxRows;
  }

  /** The elements of a row of logits. */
  public int vocabSize() {
    return config.vocabSize();
  }

  /**
   * Projects some hidden rows.
   *
   * @param hidden the rows that {@link Decoder#forward} returned
   * @param rows which of them, in the order wanted
   * @param count how many entries of {@code rows} to use, at most {@link #maxRows()}
   * @return logits [count, vocabSize]; valid until the next call, not to be closed
   */
  public DeviceBuffer project(DeviceBuffer hidden, int[] rows, int count) {
    project(hidden, rows, count, logits);
    return logits;
  }

  /**
   * Projects some hidden rows into a buffer of the caller's.
   *
   * @param out takes logits [count, vocabSize]
   */
  public void project(DeviceBuffer hidden, int[] rows, int count, DeviceBuffer out) {
    if (count < 1 || count > maxRows || count > rows.length) {
      throw new IllegalArgumentException(
          "count must be 1 to " + Math.min(maxRows, rows.length) + ", not " + count);
    }
    backend.gatherRows(hidden, config.hiddenSize(), rows, count, gathered);
    backend.linear(gathered, count, projection, null, out);
    if (config.logitScale() != 1 || config.logitSoftcap() != 0) {
      backend.transformLogits(
          out, count, config.vocabSize(), config.logitScale(), config.logitSoftcap());
    }
  }
}
