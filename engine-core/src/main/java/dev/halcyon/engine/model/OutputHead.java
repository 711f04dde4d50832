package dev.halcyon.engine.model;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.Matrix;
import dev.halcyon.engine.backend.Owned;
import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.logits.HeadDescription;
import dev.halcyon.engine.logits.LmHead;
import dev.halcyon.engine.logits.LogitsType;
import dev.halcyon.engine.logits.TiledHead;

/**
 * The projection from hidden rows to logits, with the family's scale and softcap. For the rows that
 * tokens are sampled from it has a workspace of its own, owned by its {@link Decoder}.
 */
public final class OutputHead implements LmHead {

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

  @Override
  public HeadDescription description() {
    return HeadDescription.whole(
        switch (projection.type()) {
          case F32 -> HeadDescription.Weights.F32;
          case F16 -> HeadDescription.Weights.F16;
          case BF16 -> HeadDescription.Weights.BF16;
        },
        config.vocabSize());
  }

  @Override
  public int hiddenSize() {
    return config.hiddenSize();
  }

  @Override
  public int hiddenElementBytes() {
    return backend.activationType().bytes();
  }

  @Override
  public int vocabSize() {
    return config.vocabSize();
  }

  @Override
  public int shardSize() {
    return config.vocabSize();
  }

  @Override
  public LogitsType outputType() {
    return switch (backend.activationType()) {
      case F32 -> LogitsType.F32;
      case F16 -> LogitsType.F16;
      case BF16 -> LogitsType.BF16;
    };
  }

  @Override
  public void project(DeviceBuffer hidden, int rows, DeviceBuffer out) {
    backend.linear(hidden, rows, projection, null, out);
    transform(out, rows, config.vocabSize());
  }

  private void transform(DeviceBuffer logits, int rows, int cols) {
    if (config.logitScale() != 1 || config.logitSoftcap() != 0) {
      backend.transformLogits(logits, rows, cols, config.logitScale(), config.logitSoftcap());
    }
  }

  @Override
  public TiledHead tiled() {
    return backend.takesTiles(projection) && config.logitScale() > 0 ? new Tiles() : null;
  }

  /** The transform rises with the logit, so that bounds stay bounds. */
  private final class Tiles implements TiledHead {

    @Override
    public void project(
        DeviceBuffer hidden, int rows, int firstColumn, int columns, DeviceBuffer out) {
      backend.linearTile(hidden, rows, projection, firstColumn, columns, out);
      transform(out, rows, columns);
    }

    @Override
    public void bound(DeviceBuffer hidden, int rows, int[] columns, DeviceBuffer out) {
      backend.boundLinear(hidden, rows, projection, columns, out);
      transform(out, 2, rows);
    }
  }

  /** The most rows that are sampled from at once. */
  public int maxRows() {
    return maxRows;
  }

  /**
   * The rows to sample from, [maxRows, vocabSize]; what they hold is valid until they are written
   * again. Not to be closed.
   */
  public DeviceBuffer samplingRows() {
    return logits;
  }

  /** One of the rows to sample from. */
  public DeviceBuffer samplingRow(int row) {
    long rowBytes = backend.activationBytes(1, config.vocabSize());
    return logits.slice(row * rowBytes, rowBytes);
  }

  /**
   * Projects some hidden rows to the first ones to sample from.
   *
   * @param hidden the rows that {@link Decoder#forward} returned
   * @param rows which of them, in the order wanted
   * @param count how many entries of {@code rows} to use, at most {@link #maxRows()}
   */
  public void projectSamplingRows(DeviceBuffer hidden, int[] rows, int count) {
    if (count < 1 || count > maxRows || count > rows.length) {
      throw new IllegalArgumentException(
          "count must be 1 to " + Math.min(maxRows, rows.length) + ", not " + count);
    }
    backend.gatherRows(hidden, config.hiddenSize(), rows, count, gathered);
    project(gathered, count, logits);
  }
}
