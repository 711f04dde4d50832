package dev.halcyon.engine.backend.cpu;

import java.nio.FloatBuffer;

/**
 * Copies tokens of a block in the order of the cache: for each head its keys as [headDim, token],
 * then for each head its values as [token, headDim]. A whole block is as it lies.
 */
final class StoredRuns {

  private final CpuKvStorage cache;

  StoredRuns(CpuKvStorage cache) {
    this.cache = cache;
  }

  /**
   * Copies out of the cache.
   *
   * @param first the first token's offset in the block
   * @param run how many there are
   * @param at where they begin in {@code wire}
   */
  void exportRun(int layer, int block, int first, int run, FloatBuffer wire, int at) {
    FloatBuffer floats = cache.buffer(layer, block);
    if (run == cache.shape().blockSize()) {
      wire.put(at, floats, cache.keys(block, 0), cache.blockFloats());
      return;
    }
    forEachStretch(block, first, run, at, (in, out, count) -> wire.put(out, floats, in, count));
  }

  /** Copies into the cache; the counterpart of {@link #exportRun}. */
  void importRun(int layer, int block, int first, int run, FloatBuffer wire, int at) {
    FloatBuffer floats = cache.buffer(layer, block);
    if (run == cache.shape().blockSize()) {
      floats.put(cache.keys(block, 0), wire, at, cache.blockFloats());
      return;
    }
    forEachStretch(block, first, run, at, (in, out, count) -> floats.put(in, wire, out, count));
  }

  /** Floats that follow each other in the cache, and outside. */
  private interface Stretch {
    void copy(int inCache, int outside, int count);
  }

  private void forEachStretch(int block, int first, int run, int at, Stretch stretch) {
    int dim = cache.shape().headDim();
    int size = cache.shape().blockSize();
    int heads = cache.shape().heads();
    for (int head = 0; head < heads; head++) {
      int keys = cache.keys(block, head) + first;
      for (int d = 0; d < dim; d++) {
        stretch.copy(keys + d * size, at + (head * dim + d) * run, run);
      }
      int values = cache.values(block, head) + first * dim;
      stretch.copy(values, at + (heads + head) * dim * run, run * dim);
    }
  }
}
