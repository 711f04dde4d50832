package dev.halcyon.engine.executor;

import dev.halcyon.engine.LogitsView;
import java.nio.FloatBuffer;
import java.util.List;

/**
 * Logits on the Java heap, one array a row. Several views may share the rows; each is closed alone.
 */
final class HostLogits implements LogitsView {

  private final int count;
  private final int vocabSize;
  private volatile List<float[]> rows;

  HostLogits(List<float[]> rows, int vocabSize) {
    this.rows = List.copyOf(rows);
    this.count = rows.size();
    this.vocabSize = vocabSize;
  }

  @Override
  public int rows() {
    open();
    return count;
  }

  @Override
  public int vocabSize() {
    open();
    return vocabSize;
  }

  @Override
  public FloatBuffer row(int index) {
    return FloatBuffer.wrap(open().get(index), 0, vocabSize).asReadOnlyBuffer();
  }

  @Override
  public void copyRow(int index, float[] to) {
    float[] row = open().get(index);
    if (to.length < vocabSize) {
      throw new IllegalArgumentException(
          "to must hold at least " + vocabSize + " elements, holds " + to.length);
    }
    System.arraycopy(row, 0, to, 0, vocabSize);
  }

  @Override
  public void close() {
    rows = null;
  }

  private List<float[]> open() {
    List<float[]> held = rows;
    if (held == null) {
      throw new IllegalStateException("these logits are closed");
    }
    return held;
  }
}
