package dev.halcyon.engine.executor;

import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.logits.FullLogits;
import java.nio.FloatBuffer;

/** A caller's view of context logits, wherever they lie. Closing it frees them. */
final class FullLogitsView implements LogitsView {

  private final FullLogits logits;

  FullLogitsView(FullLogits logits) {
    this.logits = logits;
  }

  @Override
  public int rows() {
    logits.requireOpen();
    return logits.rows();
  }

  @Override
  public int vocabSize() {
    logits.requireOpen();
    return logits.vocabSize();
  }

  @Override
  public FloatBuffer row(int index) {
    float[] row = new float[vocabSize()];
    logits.read(index, row);
    return FloatBuffer.wrap(row).asReadOnlyBuffer();
  }

  @Override
  public void copyRow(int index, float[] to) {
    if (to.length < vocabSize()) {
      throw new IllegalArgumentException(
          "to must hold at least " + vocabSize() + " elements, holds " + to.length);
    }
    logits.read(index, to);
  }

  @Override
  public void close() {
    logits.close();
  }
}
