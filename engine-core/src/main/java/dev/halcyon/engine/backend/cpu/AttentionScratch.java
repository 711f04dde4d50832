package dev.halcyon.engine.backend.cpu;

/** A worker's arrays for attention; see {@link AttentionOp}. */
final class AttentionScratch {

  float[] queries = {};
  float[] scores = {};
  float[] sums = {};
  float[] keys = {};
  float[] values = {};
  float[] block = {};
  float[] max = {};
  float[] total = {};

  /** Makes room for {@code queries} queries over tiles of {@code tile} positions. */
  void prepare(int count, int tile, int dim, int sumStride, int blockFloats, int lanes) {
    queries = grown(queries, count * dim);
    scores = grown(scores, count * tile);
    sums = grown(sums, count * sumStride);
    keys = grown(keys, tile * dim + lanes);
    values = grown(values, tile * dim + 2 * lanes);
    block = grown(block, blockFloats);
    max = grown(max, count);
    total = grown(total, count);
  }

  private static float[] grown(float[] array, int size) {
    return array.length >= size ? array : new float[size];
  }
}
