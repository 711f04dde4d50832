package dev.halcyon.engine.backend;

import java.nio.FloatBuffer;

/**
 * Rotation angles for each position, as cosines and sines, resident on a backend. Pair i of a
 * head's elements, as the table's {@link RopeLayout} forms them, turns by angle i; elements from
 * rotaryDim on are left alone.
 */
public interface RopeTable extends AutoCloseable {

  int positions();

  int rotaryDim();

  /**
   * Checks that a batch's positions are in the table.
   *
   * @throws IllegalArgumentException if not
   */
  default void requirePositions(Batch batch) {
    for (int row = 0; row < batch.rows(); row++) {
      if (batch.positions()[row] >= positions()) {
        throw new IllegalArgumentException(
            "Position "
                + batch.positions()[row]
                + " is past a rope table of "
                + positions()
                + " positions");
      }
    }
  }

  /**
   * Checks what a table is made of.
   *
   * @return the elements of cos and of sin
   * @throws IllegalArgumentException if it makes no table
   */
  static int requireComplete(int positions, int rotaryDim, FloatBuffer cos, FloatBuffer sin) {
    if (positions < 1 || rotaryDim < 2 || rotaryDim % 2 != 0) {
      throw new IllegalArgumentException(
          "A rope table of " + positions + " positions and rotaryDim " + rotaryDim);
    }
    int size = Math.multiplyExact(positions, rotaryDim / 2);
    if (cos.remaining() < size || sin.remaining() < size) {
      throw new IllegalArgumentException("cos and sin must hold " + size + " elements");
    }
    return size;
  }

  @Override
  void close();
}
