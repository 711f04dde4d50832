package dev.halcyon.engine;

import java.nio.FloatBuffer;

/**
 * Rows of unnormalised float32 logits, [rows, vocabSize], handed out row by row so that more than
 * 2^31 elements work. They lie on the device or the host until closed; closing twice is harmless.
 * After that every call that reads throws {@link IllegalStateException}. Any thread may read and
 * close.
 */
public interface LogitsView extends AutoCloseable {

  /** The number of rows. */
  int rows();

  /** The elements of a row. */
  int vocabSize();

  /**
   * A row as a read-only buffer of vocabSize elements. Where rows don't lie on the Java heap, it is
   * a copy: {@link #copyRow} into an array of the caller's own makes no garbage.
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
