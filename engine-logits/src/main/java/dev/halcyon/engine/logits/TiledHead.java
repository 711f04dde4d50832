package dev.halcyon.engine.logits;

/**
 * A head that can put out the logits of a part of the vocabulary alone, a tile: many rows then need
 * no more memory than a few whole ones, and each weight is still read once for all of them.
 */
public interface TiledHead {

  /**
   * Projects hidden rows to some of their columns, with the head's transform.
   *
   * @param hidden [rows, hiddenSize]
   * @param out [rows, columns] of the head's output type
   */
  void project(DeviceBuffer hidden, int rows, int firstColumn, int columns, DeviceBuffer out);

  /**
   * Bounds one logit of each row, without the tile that it is in: a product of its own, which adds
   * up in another order than {@link #project} does. That the logit which is projected is within
   * them is all but certain, no more.
   *
   * @param hidden [rows, hiddenSize]
   * @param columns the column of each row; negative where the bounds don't matter
   * @param out [2, rows] of the head's output type: the lower bounds, then the upper ones
   */
  void bound(DeviceBuffer hidden, int rows, int[] columns, DeviceBuffer out);
}
