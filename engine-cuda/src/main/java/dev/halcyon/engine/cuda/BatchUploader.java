package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.Batch;

/**
 * Holds the batch of the current step on the device. The arrays keep their addresses from step to
 * step, so that a captured graph finds the next batch where it found the last one; only a batch
 * that is larger than all before it makes them move.
 */
final class BatchUploader implements AutoCloseable {

  private static final int LEAST_ROWS = 64;
  private static final int LEAST_SEQUENCES = 16;
  private static final int LEAST_BLOCKS = 64;

  private final DeviceScratch arrays;
  private final UploadRing ring;
  private int rows;
  private int sequences;
  private int blocks;
  private long address;

  BatchUploader(CudaMemory memory, UploadRing ring) {
    this.arrays = new DeviceScratch(memory, "batches");
    this.ring = ring;
  }

  /** Makes room at once, so that batches within these limits don't make the arrays move. */
  void reserve(int mostRows, int mostSequences, int mostBlocks) {
    grow(mostRows, mostSequences, mostBlocks);
  }

  CudaBatch upload(Batch batch, int blockSize) {
    int tableBlocks = 1;
    for (int i = 0; i < batch.sequences(); i++) {
      tableBlocks = Math.max(tableBlocks, blocks(batch, i, blockSize));
    }
    grow(batch.rows(), batch.sequences(), tableBlocks);
    ring.to(address);
    rows(batch.tokenIds(), batch.rows());
    rows(batch.positions(), batch.rows());
    rows(batch.slots(), batch.rows());
    ring.ints(batch.rowStart(), 0, batch.sequences() + 1).skip(sequences - batch.sequences());
    ring.ints(batch.contextLength(), 0, batch.sequences()).skip(sequences - batch.sequences());
    ring.end();
    CudaBatch placed = placed(batch);
    ring.table(
        placed.blockTables(),
        blocks,
        tableBlocks,
        batch.sequences(),
        batch.blockTables(),
        sequence -> blocks(batch, sequence, blockSize));
    return placed;
  }

  private void rows(int[] values, int count) {
    ring.ints(values, 0, count).skip(rows - count);
  }

  private static int blocks(Batch batch, int sequence, int blockSize) {
    return Math.min(
        batch.blockTables()[sequence].length,
        Groups.ceilDiv(batch.contextLength()[sequence], blockSize));
  }

  private void grow(int neededRows, int neededSequences, int neededBlocks) {
    if (address != 0
        && neededRows <= rows
        && neededSequences <= sequences
        && neededBlocks <= blocks) {
      return;
    }
    int newRows = capacity(Math.max(rows, LEAST_ROWS), neededRows);
    int newSequences = capacity(Math.max(sequences, LEAST_SEQUENCES), neededSequences);
    int newBlocks = capacity(Math.max(blocks, LEAST_BLOCKS), neededBlocks);
    long ints = 3L * newRows + 2L * newSequences + 1 + (long) newSequences * newBlocks;
    // None, if there is no room for more.
    address = 0;
    address = arrays.atLeast(ints * Integer.BYTES);
    rows = newRows;
    sequences = newSequences;
    blocks = newBlocks;
  }

  private static int capacity(int least, int needed) {
    return needed <= least ? least : Math.max(needed, Integer.highestOneBit(needed - 1) << 1);
  }

  private CudaBatch placed(Batch batch) {
    long at = address;
    long row = (long) rows * Integer.BYTES;
    long rowStart = at + 3 * row;
    long contextLength = rowStart + (sequences + 1L) * Integer.BYTES;
    return new CudaBatch(
        batch,
        at,
        at + row,
        at + 2 * row,
        rowStart,
        contextLength,
        contextLength + (long) sequences * Integer.BYTES,
        blocks);
  }

  @Override
  public void close() {
    arrays.close();
  }
}
