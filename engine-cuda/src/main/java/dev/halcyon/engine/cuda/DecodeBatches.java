package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.Batch;
import java.util.Arrays;

/**
 * Batches in which each sequence has one row, padded to a number of rows that recorded steps are
 * for. They have arrays of their own on the device, small and always in the same place. A row of
 * padding is that of a sequence with nothing in the cache: token 0, position 0, no slot.
 */
final class DecodeBatches implements AutoCloseable {

  private static final int[] NO_BLOCKS = {};

  private final BatchUploader uploader;
  private int most;
  private int blocks;
  private int[] tokenIds = {};
  private int[] positions = {};
  private int[] slots = {};
  private int[] rowStart = {};
  private int[] contextLength = {};
  private int[][] blockTables = {};

  DecodeBatches(CudaMemory memory, UploadRing ring) {
    uploader = new BatchUploader(memory, ring);
  }

  /**
   * Makes room; until then no batch is taken.
   *
   * @param sequences the most sequences of a batch
   * @param tableBlocks the most blocks of a sequence
   */
  void reserve(int sequences, int tableBlocks) {
    uploader.reserve(sequences, sequences, tableBlocks);
    most = sequences;
    blocks = tableBlocks;
    tokenIds = new int[sequences];
    positions = new int[sequences];
    slots = new int[sequences];
    rowStart = new int[sequences + 1];
    Arrays.setAll(rowStart, i -> i);
    contextLength = new int[sequences];
    blockTables = new int[sequences][];
  }

  /** Whether each sequence has one row, and all are within what was reserved. */
  boolean takes(Batch batch, int blockSize) {
    int rows = batch.rows();
    if (rows < 1 || rows > most || batch.sequences() != rows) {
      return false;
    }
    for (int i = 0; i < rows; i++) {
      if (batch.rowStart()[i] != i || batch.contextLength()[i] > (long) blocks * blockSize) {
        return false;
      }
    }
    return true;
  }

  /** Uploads a batch that is taken; returns it with its padding. */
  CudaBatch upload(Batch batch, int blockSize) {
    int rows = batch.rows();
    int padded = Math.min(most, RowBuckets.of(rows));
    System.arraycopy(batch.tokenIds(), 0, tokenIds, 0, rows);
    System.arraycopy(batch.positions(), 0, positions, 0, rows);
    System.arraycopy(batch.slots(), 0, slots, 0, rows);
    System.arraycopy(batch.contextLength(), 0, contextLength, 0, rows);
    System.arraycopy(batch.blockTables(), 0, blockTables, 0, rows);
    Arrays.fill(tokenIds, rows, padded, 0);
    Arrays.fill(positions, rows, padded, 0);
    Arrays.fill(slots, rows, padded, -1);
    Arrays.fill(contextLength, rows, padded, 0);
    Arrays.fill(blockTables, rows, most, NO_BLOCKS);
    return uploader.upload(
        new Batch(padded, tokenIds, positions, slots, padded, rowStart, contextLength, blockTables),
        blockSize);
  }

  @Override
  public void close() {
    uploader.close();
  }
}
