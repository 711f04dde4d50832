package dev.halcyon.engine.logits;

/**
 * Rows on their way to prompt logprobs, a tile of the vocabulary after the other. For the device's
 * owner; one at a time.
 */
public interface TileReduction {

  /** Tiles have a multiple of this number of columns. */
  int COLUMNS = 128;

  /**
   * Takes the next tile. Tiles come in the order of columns, without gaps; the first columns of one
   * may be the last ones of the tile before, and then don't count again.
   *
   * @param logits [rows, columns], which may be changed, and are done with for operations called
   *     later
   * @param columns a multiple of {@link #COLUMNS}; as many for each tile
   */
  void reduce(DeviceBuffer logits, int firstColumn, int columns);

  /**
   * Waits for all tiles. The rows' entries are set once {@link LogitsDevice#awaitReductions}
   * returns.
   *
   * @return the rows, in order, whose entries are not, since the logit of the token that they score
   *     was outside of its bounds: they are to be reduced whole
   */
  int[] finish();
}
