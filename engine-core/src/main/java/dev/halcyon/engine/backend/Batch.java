package dev.halcyon.engine.backend;

/**
 * One flat batch: the rows of all sequences of a step, one sequence after the other. Arrays may be
 * longer than what is used. A sequence of padding has contextLength 0, and rows at position 0 that
 * are kept nowhere; attention gives zeros for them.
 *
 * @param rows the number of rows (tokens) in the batch
 * @param tokenIds [rows] token ids
 * @param positions [rows] each row's position in its sequence, from 0
 * @param slots [rows] where the row's key and value go: block * blockSize + offset in the block; -1
 *     for a row whose key and value are not kept
 * @param sequences the number of sequences
 * @param rowStart [sequences + 1] the first row of each sequence, then the number of rows
 * @param contextLength [sequences] tokens of the sequence in the cache after this step; the
 *     sequence's last row has position contextLength - 1
 * @param blockTables [sequences][at least ceil(contextLength / blockSize)] block ids in order of
 *     position
 */
public record Batch(
    int rows,
    int[] tokenIds,
    int[] positions,
    int[] slots,
    int sequences,
    int[] rowStart,
    int[] contextLength,
    int[][] blockTables) {

  /**
   * Checks that the arrays have what the numbers of rows and sequences say, and that rows are
   * within their contexts.
   *
   * @throws IllegalArgumentException if not
   */
  public void requireConsistent() {
    require(rows >= 0 && sequences >= 0, "rows and sequences must not be negative");
    require(
        tokenIds.length >= rows && positions.length >= rows && slots.length >= rows,
        "tokenIds, positions and slots must have an element for each row");
    require(
        rowStart.length > sequences
            && contextLength.length >= sequences
            && blockTables.length >= sequences,
        "rowStart, contextLength and blockTables must have an element for each sequence");
    require(
        rowStart[0] == 0 && rowStart[sequences] == rows,
        "rowStart must begin with 0 and end with the number of rows");
    for (int s = 0; s < sequences; s++) {
      require(rowStart[s] <= rowStart[s + 1], "rowStart must not fall");
    }
    for (int s = 0; s < sequences; s++) {
      for (int row = rowStart[s]; row < rowStart[s + 1]; row++) {
        boolean padding = contextLength[s] == 0 && positions[row] == 0 && slots[row] == -1;
        if (!padding && (positions[row] < 0 || positions[row] >= contextLength[s])) {
          throw refused("Row " + row + " has position " + positions[row] + ", past its context");
        }
      }
    }
  }

  /**
   * Checks that slots and block tables lie in a cache.
   *
   * @throws IllegalArgumentException if not
   */
  public void requireFits(KvShape shape) {
    long most = (long) shape.blocks() * shape.blockSize();
    for (int row = 0; row < rows; row++) {
      if (slots[row] < -1 || slots[row] >= most) {
        throw refused("Row " + row + " has slot " + slots[row] + " of " + most);
      }
    }
    for (int s = 0; s < sequences; s++) {
      int[] table = blockTables[s];
      int blocks = (contextLength[s] + shape.blockSize() - 1) / shape.blockSize();
      if (table.length < blocks) {
        throw refused("Sequence " + s + " needs a table of " + blocks + " blocks");
      }
      for (int i = 0; i < blocks; i++) {
        if (table[i] < 0 || table[i] >= shape.blocks()) {
          throw refused("Sequence " + s + " has block " + table[i] + " of " + shape.blocks());
        }
      }
    }
  }

  private static void require(boolean condition, String message) {
    if (!condition) {
      throw refused(message);
    }
  }

  private static IllegalArgumentException refused(String message) {
    return new IllegalArgumentException("batch: " + message);
  }
}
