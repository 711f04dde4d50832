package dev.halcyon.engine.backend.cpu;

import java.nio.FloatBuffer;

/** Norms of rows, in float32. */
final class NormOps {

  private final WorkerPool pool;
  private final Scratch[] scratch;
  private final Kernels kernels;

  NormOps(WorkerPool pool, Scratch[] scratch, Kernels kernels) {
    this.pool = pool;
    this.scratch = scratch;
    this.kernels = kernels;
  }

  void rmsNorm(
      FloatBuffer x, float[] weight, float weightOffset, float eps, int rows, FloatBuffer out) {
    int cols = weight.length;
    Chunks.run(
        pool,
        rows,
        cols,
        (row, worker) -> {
          float[] values = scratch[worker].a(cols);
          x.get(row * cols, values, 0, cols);
          normalise(values, 0, weight, weightOffset, eps);
          out.put(row * cols, values, 0, cols);
        });
  }

  void addRmsNorm(
      FloatBuffer residual,
      FloatBuffer delta,
      float[] weight,
      float weightOffset,
      float eps,
      int rows,
      FloatBuffer out) {
    int cols = weight.length;
    Chunks.run(
        pool,
        rows,
        cols,
        (row, worker) -> {
          float[] values = scratch[worker].a(cols);
          float[] added = scratch[worker].b(cols);
          residual.get(row * cols, values, 0, cols);
          delta.get(row * cols, added, 0, cols);
          for (int i = 0; i < cols; i++) {
            values[i] += added[i];
          }
          residual.put(row * cols, values, 0, cols);
          normalise(values, 0, weight, weightOffset, eps);
          out.put(row * cols, values, 0, cols);
        });
  }

  void rmsNormHeads(
      FloatBuffer x,
      int rowCols,
      int firstCol,
      int heads,
      float[] weight,
      float weightOffset,
      float eps,
      int rows) {
    int size = heads * weight.length;
    Chunks.run(
        pool,
        rows,
        size,
        (row, worker) -> {
          float[] values = scratch[worker].a(size);
          x.get(row * rowCols + firstCol, values, 0, size);
          for (int head = 0; head < heads; head++) {
            normalise(values, head * weight.length, weight, weightOffset, eps);
          }
          x.put(row * rowCols + firstCol, values, 0, size);
        });
  }

  void layerNorm(FloatBuffer x, float[] weight, float eps, int rows, FloatBuffer out) {
    int cols = weight.length;
    Chunks.run(
        pool,
        rows,
        cols,
        (row, worker) -> {
          float[] values = scratch[worker].a(cols);
          x.get(row * cols, values, 0, cols);
          centre(values, cols);
          normalise(values, 0, weight, 0, eps);
          out.put(row * cols, values, 0, cols);
        });
  }

  /** Takes the mean away, so that what is left has the variance as the mean of its squares. */
  private void centre(float[] x, int count) {
    float mean = kernels.sum(x, 0, count) / count;
    for (int i = 0; i < count; i++) {
      x[i] -= mean;
    }
  }

  private void normalise(float[] x, int from, float[] weight, float weightOffset, float eps) {
    int count = weight.length;
    float mean = kernels.sumOfSquares(x, from, count) / count;
    float factor = (float) (1 / Math.sqrt(mean + eps));
    for (int i = 0; i < count; i++) {
      x[from + i] = x[from + i] * factor * (weight[i] + weightOffset);
    }
  }
}
