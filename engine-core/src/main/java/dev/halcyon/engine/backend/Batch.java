package dev.halcyon.engine.backend;

/**
 * One flat batch: the rows of all sequences of a step, one sequence after the other. Arrays may be
 * longer than what is used.
 *
 * @param rows the number of rows (tokens) in the batch
 * @param tokenIds [rows] token ids
 * @param positions [rows] each row's position in its sequence, from 0
 * @param slots [rows] where the row's key and value go: block * blockSize + offset in the block
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
    int[][] blockTables) {}
