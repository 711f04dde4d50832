package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.AttentionSpec;
import dev.halcyon.engine.backend.Batch;
import java.nio.FloatBuffer;

/** Rotary embedding of queries and keys, and the writing of keys and values to the cache. */
final class RopeOp {

  private final WorkerPool pool;
  private final Scratch[] scratch;

  RopeOp(WorkerPool pool, Scratch[] scratch) {
    this.pool = pool;
    this.scratch = scratch;
  }

  /**
   * @param rope null for none
   */
  void run(
      CpuBatch cpuBatch,
      FloatBuffer qkv,
      AttentionSpec spec,
      CpuRopeTable rope,
      CpuKvStorage kv,
      int layer) {
    cpuBatch.checkFor(kv);
    Batch batch = cpuBatch.batch();
    if (rope != null) {
      rope.requirePositions(batch);
    }
    int cols = spec.packedCols();
    int queryCols = spec.queryHeads() * spec.headDim();
    Chunks.run(
        pool,
        batch.rows(),
        cols,
        (row, worker) -> {
          float[] values = scratch[worker].a(cols);
          qkv.get(row * cols, values, 0, cols);
          if (rope != null) {
            int heads = spec.queryHeads() + spec.kvHeads();
            rotate(values, heads, spec.headDim(), rope, batch.positions()[row]);
            qkv.put(row * cols, values, 0, queryCols);
          }
          if (batch.slots()[row] >= 0) {
            store(values, spec, kv, layer, batch.slots()[row]);
          }
        });
  }

  private static void rotate(float[] x, int heads, int headDim, CpuRopeTable rope, int position) {
    int half = rope.rotaryDim() / 2;
    int at = position * half;
    float[] cos = rope.cos();
    float[] sin = rope.sin();
    for (int head = 0; head < heads; head++) {
      switch (rope.layout()) {
        case HALVES -> rotateHalves(x, head * headDim, half, cos, sin, at);
        case INTERLEAVED -> rotateInterleaved(x, head * headDim, half, cos, sin, at);
      }
    }
  }

  private static void rotateHalves(
      float[] x, int first, int half, float[] cos, float[] sin, int at) {
    for (int i = 0; i < half; i++) {
      float a = x[first + i];
      float b = x[first + half + i];
      x[first + i] = a * cos[at + i] - b * sin[at + i];
      x[first + half + i] = b * cos[at + i] + a * sin[at + i];
    }
  }

  private static void rotateInterleaved(
      float[] x, int first, int half, float[] cos, float[] sin, int at) {
    for (int i = 0; i < half; i++) {
      float a = x[first + 2 * i];
      float b = x[first + 2 * i + 1];
      x[first + 2 * i] = a * cos[at + i] - b * sin[at + i];
      x[first + 2 * i + 1] = b * cos[at + i] + a * sin[at + i];
    }
  }

  private static void store(float[] row, AttentionSpec spec, CpuKvStorage kv, int layer, int slot) {
    int blockSize = kv.shape().blockSize();
    int block = slot / blockSize;
    int offset = slot % blockSize;
    int dim = spec.headDim();
    FloatBuffer buffer = kv.buffer(layer, block);
    for (int head = 0; head < spec.kvHeads(); head++) {
      int key = (spec.queryHeads() + head) * dim;
      int keys = kv.keys(block, head) + offset;
      for (int d = 0; d < dim; d++) {
        buffer.put(keys + d * blockSize, row[key + d]);
      }
      int value = key + spec.kvHeads() * dim;
      buffer.put(kv.values(block, head) + offset * dim, row, value, dim);
    }
  }
}
