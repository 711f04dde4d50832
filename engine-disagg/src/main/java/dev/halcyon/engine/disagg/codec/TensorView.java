package dev.halcyon.engine.disagg.codec;

import dev.halcyon.engine.LogitsView;
import java.nio.ByteBuffer;
import java.nio.FloatBuffer;
import java.util.Objects;

/** Logits that came over the wire, as a view of float32 rows. */
final class TensorView implements LogitsView {

  private volatile LogitsTensor tensor;

  TensorView(LogitsTensor tensor) {
    this.tensor = tensor;
  }

  @Override
  public int rows() {
    return open().rows();
  }

  @Override
  public int vocabSize() {
    return open().vocabSize();
  }

  @Override
  public FloatBuffer row(int index) {
    float[] row = new float[vocabSize()];
    copyRow(index, row);
    return FloatBuffer.wrap(row).asReadOnlyBuffer();
  }

  @Override
  public void copyRow(int index, float[] to) {
    LogitsTensor from = open();
    int size = from.vocabSize();
    Objects.checkIndex(index, from.rows());
    if (to.length < size) {
      throw new IllegalArgumentException(
          "to must hold at least " + size + " elements, holds " + to.length);
    }
    ByteBuffer data = from.data();
    int first = index * size;
    if (from.type() == WireType.FLOAT32) {
      data.position(first * Float.BYTES);
      data.slice().order(data.order()).asFloatBuffer().get(to, 0, size);
      return;
    }
    for (int i = 0; i < size; i++) {
      to[i] = from.type().read(data, first + i);
    }
  }

  @Override
  public void close() {
    tensor = null;
  }

  private LogitsTensor open() {
    LogitsTensor held = tensor;
    if (held == null) {
      throw new IllegalStateException("these logits are closed");
    }
    return held;
  }
}
