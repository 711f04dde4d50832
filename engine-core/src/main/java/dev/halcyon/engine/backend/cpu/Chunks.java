package dev.halcyon.engine.backend.cpu;

/** Spreads work on rows over a pool in pieces that are worth a hand-over. */
final class Chunks {

  /** About how many elements a piece has. */
  static final int ELEMENTS = 16 * 1024;

  private Chunks() {}

  /** What is done with one row. */
  interface RowTask {
    void run(int row, int worker);
  }

  /** Runs task for each of {@code rows} rows, which have about {@code cols} elements to work on. */
  static void run(WorkerPool pool, int rows, int cols, RowTask task) {
    int rowsPerPiece = Math.max(1, ELEMENTS / Math.max(1, cols));
    int pieces = (rows + rowsPerPiece - 1) / rowsPerPiece;
    pool.run(
        pieces,
        (piece, worker) -> {
          int end = Math.min(rows, (piece + 1) * rowsPerPiece);
          for (int row = piece * rowsPerPiece; row < end; row++) {
            task.run(row, worker);
          }
        });
  }

  /** What is done with a run of a row's columns. */
  interface ColumnTask {
    void run(int row, int firstCol, int count, int worker);
  }

  /** Runs task for runs of at most {@link #ELEMENTS} columns that cover all rows. */
  static void runColumns(WorkerPool pool, int rows, int cols, ColumnTask task) {
    int perRow = (cols + ELEMENTS - 1) / ELEMENTS;
    run(
        pool,
        Math.multiplyExact(rows, perRow),
        Math.min(cols, ELEMENTS),
        (piece, worker) -> {
          int first = piece % perRow * ELEMENTS;
          task.run(piece / perRow, first, Math.min(ELEMENTS, cols - first), worker);
        });
  }
}
