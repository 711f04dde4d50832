package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.backend.DeviceBatch;

/**
 * A batch with the addresses of its arrays on the device, all of 32-bit integers.
 *
 * @param tokenIds [rows]
 * @param positions [rows]
 * @param slots [rows]
 * @param rowStart [sequences + 1]
 * @param contextLength [sequences]
 * @param blockTables [sequences, tableStride]
 * @param tableStride integers from one sequence's table to the next one's
 */
record CudaBatch(
    Batch batch,
    long tokenIds,
    long positions,
    long slots,
    long rowStart,
    long contextLength,
    long blockTables,
    int tableStride)
    implements DeviceBatch {

  /** The same arrays on the device, as those of another batch. */
  CudaBatch with(Batch other) {
    return new CudaBatch(
        other, tokenIds, positions, slots, rowStart, contextLength, blockTables, tableStride);
  }

  static CudaBatch of(DeviceBatch batch) {
    if (!(batch instanceof CudaBatch cuda)) {
      throw new IllegalArgumentException("batch is not one of the CUDA backend: " + batch);
    }
    return cuda;
  }
}
