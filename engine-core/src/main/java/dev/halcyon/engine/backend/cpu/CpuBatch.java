package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.backend.DeviceBatch;
import dev.halcyon.engine.backend.KvShape;

/** A batch that was checked once, so that no operation of the step reads outside its arrays. */
final class CpuBatch implements DeviceBatch {

  private final Batch batch;
  private KvShape checked;

  CpuBatch(Batch batch) {
    this.batch = batch;
    int rows = batch.rows();
    int sequences = batch.sequences();
    require(rows >= 0 && sequences >= 0, "rows and sequences must not be negative");
    require(
        batch.tokenIds().length >= rows
            && batch.positions().length >= rows
            && batch.slots().length >= rows,
        "tokenIds, positions and slots must have an element for each row");
    require(
        batch.rowStart().length > sequences
            && batch.contextLength().length >= sequences
            && batch.blockTables().length >= sequences,
        "rowStart, contextLength and blockTables must have an element for each sequence");
    require(
        batch.rowStart()[0] == 0 && batch.rowStart()[sequences] == rows,
        "rowStart must begin with 0 and end with the number of rows");
    for (int s = 0; s < sequences; s++) {
      require(batch.rowStart()[s] <= batch.rowStart()[s + 1], "rowStart must not fall");
      for (int row = batch.rowStart()[s]; row < batch.rowStart()[s + 1]; row++) {
        int position = batch.positions()[row];
        require(
            position >= 0 && position < batch.contextLength()[s],
            "Row " + row + " has position " + position + ", past its context");
      }
    }
  }

  static CpuBatch of(DeviceBatch batch) {
    if (!(batch instanceof CpuBatch cpu)) {
      throw new IllegalArgumentException("batch is not one of the CPU backend: " + batch);
    }
    return cpu;
  }

  /** Checks slots and block tables against a cache, once for each shape of cache. */
  void checkFor(CpuKvStorage kv) {
    KvShape shape = kv.shape();
    if (shape.equals(checked)) {
      return;
    }
    long slots = (long) shape.blocks() * shape.blockSize();
    for (int row = 0; row < batch.rows(); row++) {
      int slot = batch.slots()[row];
      require(slot >= 0 && slot < slots, "Row " + row + " has slot " + slot + " of " + slots);
    }
    for (int s = 0; s < batch.sequences(); s++) {
      int[] table = batch.blockTables()[s];
      int blocks = (batch.contextLength()[s] + shape.blockSize() - 1) / shape.blockSize();
      require(table.length >= blocks, "Sequence " + s + " needs a table of " + blocks + " blocks");
    }
    checked = shape;
  }

  private static void require(boolean condition, String message) {
    if (!condition) {
      throw new IllegalArgumentException("batch: " + message);
    }
  }

  @Override
  public Batch batch() {
    return batch;
  }
}
