package dev.halcyon.engine.benchmarks;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.HostTensor;
import dev.halcyon.engine.backend.Matrix;
import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.logits.HeadDescription;
import dev.halcyon.engine.logits.LmHead;
import dev.halcyon.engine.logits.LogitsType;
import dev.halcyon.engine.logits.TiledHead;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;

/** A head of random BF16 weights on a backend: what an engine's own head does without transform. */
final class RandomHead implements LmHead, AutoCloseable {

  private static final int SEGMENT_BYTES = 1 << 30;

  private final Backend backend;
  private final Matrix weights;

  RandomHead(Backend backend, HostTensor weights) {
    this.backend = backend;
    this.weights = backend.load(List.of(weights));
  }

  /** Random weights [vocabSize, hiddenSize], in host memory. */
  static HostTensor weights(int vocabSize, int hiddenSize, long seed) {
    RandomWeights random = new RandomWeights(seed);
    long rowBytes = (long) hiddenSize * DType.BF16.bytes();
    int segmentRows = (int) Math.max(1, Math.min(vocabSize, SEGMENT_BYTES / rowBytes));
    List<ByteBuffer> segments = new ArrayList<>();
    for (int row = 0; row < vocabSize; row += segmentRows) {
      long bytes = Math.min(segmentRows, vocabSize - row) * rowBytes;
      ByteBuffer segment =
          ByteBuffer.allocateDirect(Math.toIntExact(bytes)).order(ByteOrder.LITTLE_ENDIAN);
      while (segment.hasRemaining()) {
        segment.putShort(random.next());
      }
      segments.add(segment.rewind());
    }
    return new HostTensor(
        "lm_head.weight", DType.BF16, vocabSize, hiddenSize, segmentRows, segments);
  }

  @Override
  public HeadDescription description() {
    return HeadDescription.whole(HeadDescription.Weights.BF16, vocabSize());
  }

  @Override
  public int hiddenSize() {
    return weights.cols();
  }

  @Override
  public int hiddenElementBytes() {
    return backend.activationType().bytes();
  }

  @Override
  public int vocabSize() {
    return weights.rows();
  }

  @Override
  public int shardSize() {
    return weights.rows();
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
    backend.linear(hidden, rows, weights, null, out);
  }

  @Override
  public TiledHead tiled() {
    return backend.takesTiles(weights) ? new Tiles() : null;
  }

  private final class Tiles implements TiledHead {

    @Override
    public void project(
        DeviceBuffer hidden, int rows, int firstColumn, int columns, DeviceBuffer out) {
      backend.linearTile(hidden, rows, weights, firstColumn, columns, out);
    }

    @Override
    public void bound(DeviceBuffer hidden, int rows, int[] columns, DeviceBuffer out) {
      backend.boundLinear(hidden, rows, weights, columns, out);
    }
  }

  @Override
  public void close() {
    weights.close();
  }
}
