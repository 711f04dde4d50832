package dev.halcyon.engine;

import java.nio.FloatBuffer;

/**
 * Rows of unnormalised float32 logits, [rows, vocabSize], handed out row by row so that more than
 * 2^31 elements work. Held until closed; closing twice is harmless. After that every other call
 * throws {@link IllegalStateException}.
 */
public interface LogitsView extends AutoCloseable {

  /** The number of rows. */
  int rows();

  /** The elements of a row. */
  int vocabSize();

  /**
   * A row as a read-only buffer of vocabSize elements, valid until the view is closed.
   *
   * @throws IndexOutOfBoundsException if there is no such row
   */
  FloatBuffer row(int index);

  /**
   * Copies a row.
   *
   * @param to at least [vocabSize]
   * @throws IndexOutOfBoundsException if there is no such row
   * @throws IllegalArgumentException if {@code to} is too short
   */
  void copyRow(int index, float[] to);

  @Override
  void close();
}
