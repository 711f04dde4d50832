package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.Activation;
import dev.halcyon.engine.backend.Batch;
import java.nio.FloatBuffer;

/**
 * What is done to rows element by element: embedding, adding, gathering, the gated activation,
 * logit transforms.
 */
final class RowOps {

  private final WorkerPool pool;
  private final Scratch[] scratch;
  private final Kernels kernels;

  RowOps(WorkerPool pool, Scratch[] scratch, Kernels kernels) {
    this.pool = pool;
    this.scratch = scratch;
    this.kernels = kernels;
  }

  void embed(CpuMatrix table, Batch batch, float scale, FloatBuffer out) {
    int cols = table.cols();
    for (int row = 0; row < batch.rows(); row++) {
      int id = batch.tokenIds()[row];
      if (id < 0 || id >= table.rows()) {
        throw new IllegalArgumentException(
            "Token id " + id + " is outside a table of " + table.rows() + " rows");
      }
    }
    Chunks.run(
        pool,
        batch.rows(),
        cols,
        (row, worker) -> {
          int id = batch.tokenIds()[row];
          Slab slab = table.slabOf(id);
          float[] values = scratch[worker].a(cols);
          slab.widenRow(id - slab.firstRow(), kernels, scratch[worker], values);
          if (scale != 1) {
            for (int i = 0; i < cols; i++) {
              values[i] *= scale;
            }
          }
          out.put(row * cols, values, 0, cols);
        });
  }

  void add(FloatBuffer residual, FloatBuffer delta, int rows, int cols) {
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
        });
  }

  void gather(FloatBuffer x, int cols, int[] indices, int count, FloatBuffer out) {
    for (int i = 0; i < count; i++) {
      if (indices[i] < 0 || (indices[i] + 1L) * cols > x.limit()) {
        throw new IllegalArgumentException(
            "indices[" + i + "] = " + indices[i] + " is no row of x");
      }
    }
    for (int i = 0; i < count; i++) {
      out.put(i * cols, x, indices[i] * cols, cols);
    }
  }

  void gatedActivation(
      FloatBuffer gateUp, int rows, int inner, Activation activation, FloatBuffer out) {
    Chunks.runColumns(
        pool,
        rows,
        inner,
        (row, first, count, worker) -> {
          float[] gate = scratch[worker].a(count);
          float[] up = scratch[worker].b(count);
          gateUp.get(row * 2 * inner + first, gate, 0, count);
          gateUp.get(row * 2 * inner + inner + first, up, 0, count);
          activate(gate, count, activation);
          for (int i = 0; i < count; i++) {
            gate[i] *= up[i];
          }
          out.put(row * inner + first, gate, 0, count);
        });
  }

  private void activate(float[] x, int count, Activation activation) {
    switch (activation) {
      case SILU -> kernels.silu(x, count);
      case GELU_TANH -> kernels.geluTanh(x, count);
      case GELU -> {
        for (int i = 0; i < count; i++) {
          x[i] = Activations.gelu(x[i]);
        }
      }
    }
  }

  void transformLogits(FloatBuffer logits, int rows, int cols, float scale, float softcap) {
    if (scale == 1 && softcap == 0) {
      return;
    }
    Chunks.runColumns(
        pool,
        rows,
        cols,
        (row, first, count, worker) -> {
          float[] values = scratch[worker].a(count);
          logits.get(row * cols + first, values, 0, count);
          for (int i = 0; i < count; i++) {
            values[i] *= scale;
          }
          if (softcap != 0) {
            for (int i = 0; i < count; i++) {
              values[i] = softcap * Activations.tanh(values[i] / softcap);
            }
          }
          logits.put(row * cols + first, values, 0, count);
        });
  }
}
