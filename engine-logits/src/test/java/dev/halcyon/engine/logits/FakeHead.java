package dev.halcyon.engine.logits;

import dev.halcyon.engine.logits.HeadDescription.Sharding;
import dev.halcyon.engine.logits.HeadDescription.Weights;
import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.function.DoubleUnaryOperator;

/**
 * A head of small whole numbers: a row of hidden values in [-4, 4] times weights in [-7, 7] stays
 * below 256, and so is exact in float32, float16 and bfloat16. It divides by 8 and applies its
 * transform.
 */
final class FakeHead implements LmHead {

  static final int HIDDEN = 4;

  private final FakeDevice device;
  private final HeadDescription description;
  private final LogitsType type;
  private final int vocabSize;
  private final int shardSize;
  private final int firstColumn;
  private final DoubleUnaryOperator transform;
  private boolean silent;
  private TiledHead tiles;

  private FakeHead(
      FakeDevice device,
      HeadDescription description,
      LogitsType type,
      int vocabSize,
      int shardSize,
      int firstColumn,
      DoubleUnaryOperator transform) {
    this.device = device;
    this.description = description;
    this.type = type;
    this.vocabSize = vocabSize;
    this.shardSize = shardSize;
    this.firstColumn = firstColumn;
    this.transform = transform;
  }

  /** A whole head on one rank. */
  static FakeHead whole(FakeDevice device, LogitsType type, int vocabSize) {
    return whole(device, type, vocabSize, x -> x);
  }

  static FakeHead whole(
      FakeDevice device, LogitsType type, int vocabSize, DoubleUnaryOperator transform) {
    HeadDescription description = HeadDescription.whole(Weights.valueOf(type.name()), vocabSize);
    return new FakeHead(device, description, type, vocabSize, vocabSize, 0, transform);
  }

  /** A rank's columns of a head. */
  static FakeHead shard(FakeDevice device, LogitsType type, int vocabSize, int ranks, int rank) {
    int columns = vocabSize / ranks;
    HeadDescription description =
        new HeadDescription(
            Weights.valueOf(type.name()),
            Sharding.COLUMN,
            Collections.nCopies(ranks, columns),
            true,
            false,
            false);
    return new FakeHead(device, description, type, vocabSize, columns, rank * columns, x -> x);
  }

  /** The same head with another description. */
  FakeHead described(HeadDescription other) {
    return new FakeHead(device, other, type, vocabSize, shardSize, firstColumn, transform);
  }

  /** Lets it write nothing, where only the numbers of rows matter. */
  FakeHead silent() {
    silent = true;
    return this;
  }

  /**
   * Lets it put out tiles.
   *
   * @param miss every so many rows of a call, bounds are wrong; 0 for never
   */
  FakeHead tiled(int miss) {
    tiles = new Tiles(miss);
    return this;
  }

  @Override
  public TiledHead tiled() {
    return tiles;
  }

  @Override
  public HeadDescription description() {
    return description;
  }

  @Override
  public int hiddenSize() {
    return HIDDEN;
  }

  @Override
  public int hiddenElementBytes() {
    return type.bytes();
  }

  @Override
  public int vocabSize() {
    return vocabSize;
  }

  @Override
  public int shardSize() {
    return shardSize;
  }

  @Override
  public LogitsType outputType() {
    return type;
  }

  /** A weight, from the numbers of its column and hidden dimension. */
  static int weight(int column, int dimension) {
    int mixed = (column * 4 + dimension + 1) * 0x9E3779B1;
    return Math.floorMod((mixed >>> 15) ^ mixed, 15) - 7;
  }

  @Override
  public void project(DeviceBuffer hidden, int rows, DeviceBuffer out) {
    device.log.add("project " + rows);
    if (silent) {
      return;
    }
    device.enqueue(
        () ->
            FakeMemory.use(
                hidden, in -> FakeMemory.use(out, to -> product(in, rows, 0, shardSize, to))));
  }

  private void product(ByteBuffer in, int rows, int first, int columns, ByteBuffer to) {
    for (int row = 0; row < rows; row++) {
      for (int column = 0; column < columns; column++) {
        Elements.put(
            to, (row * columns + column) * type.bytes(), type, logit(in, row, first + column));
      }
    }
  }

  private float logit(ByteBuffer in, int row, int column) {
    float sum = 0;
    for (int i = 0; i < HIDDEN; i++) {
      float value = Elements.get(in, (row * HIDDEN + i) * type.bytes(), type);
      sum += value * weight(firstColumn + column, i);
    }
    return (float) transform.applyAsDouble(sum / 8);
  }

  private final class Tiles implements TiledHead {

    private final int miss;

    Tiles(int miss) {
      this.miss = miss;
    }

    @Override
    public void project(DeviceBuffer hidden, int rows, int first, int columns, DeviceBuffer out) {
      device.log.add("tile " + columns);
      device.enqueue(
          () ->
              FakeMemory.use(
                  hidden, in -> FakeMemory.use(out, to -> product(in, rows, first, columns, to))));
    }

    @Override
    public void bound(DeviceBuffer hidden, int rows, int[] columns, DeviceBuffer out) {
      int[] wanted = columns.clone();
      device.enqueue(
          () ->
              FakeMemory.use(hidden, in -> FakeMemory.use(out, to -> bound(in, rows, wanted, to))));
    }

    private void bound(ByteBuffer in, int rows, int[] columns, ByteBuffer to) {
      for (int row = 0; row < rows; row++) {
        float logit = columns[row] < 0 ? 0 : logit(in, row, columns[row]);
        if (miss > 0 && row % miss == miss - 1) {
          logit += 1;
        }
        Elements.put(to, row * type.bytes(), type, logit);
        Elements.put(to, (rows + row) * type.bytes(), type, logit + row % 3);
      }
    }
  }
}
