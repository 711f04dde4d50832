package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.DType;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;

/**
 * Linear layers. Few rows (decoding) go through our own kernel, which reads weights in their stored
 * type and once for all rows: its speed is that of memory. Many rows (prompts) go through OpenBLAS:
 * tiles of weight rows are widened to float32, in cache, and multiplied there.
 */
final class LinearOp {

  /** From this many rows on (measured), widening weights costs less than BLAS wins over vectors. */
  private static final int BLAS_ROWS = 40;

  /** The same for kernels without vectors, which lose sooner. */
  private static final int BLAS_ROWS_SCALAR = 8;

  /** Products smaller than this many multiplications aren't worth BLAS's own set-up. */
  private static final long BLAS_PRODUCTS = 4_000_000;

  /**
   * The most weight bytes that one task of our own kernel reads: long runs, as each task starts
   * where nothing is prefetched (measured: a tenth faster than 128 KiB).
   */
  private static final int TASK_BYTES = 1024 * 1024;

  /** How many activation rows our own kernel takes together, which stay in cache. */
  private static final int GROUP_ROWS = 32;

  /** Floats of a widened tile of weights. */
  private static final int TILE_FLOATS = 512 * 1024;

  private final WorkerPool pool;
  private final Scratch[] scratch;
  private final Kernels kernels;
  private final Blas blas;
  private float[] packed = {};

  /**
   * @param blas null to do without
   */
  LinearOp(WorkerPool pool, Scratch[] scratch, Kernels kernels, Blas blas) {
    this.pool = pool;
    this.scratch = scratch;
    this.kernels = kernels;
    this.blas = blas;
  }

  /**
   * @param x [rows, weight.cols()]
   * @param bias [weight.rows()] or null
   * @param out [rows, weight.rows()]
   */
  void run(FloatBuffer x, int rows, CpuMatrix weight, float[] bias, FloatBuffer out) {
    int blasRows = kernels.lanes() > 1 ? BLAS_ROWS : BLAS_ROWS_SCALAR;
    long products = (long) rows * weight.rows() * weight.cols();
    boolean multiply = blas != null && rows >= blasRows && products >= BLAS_PRODUCTS;
    for (Slab slab : weight.slabs()) {
      if (multiply) {
        throughBlas(x, rows, slab, weight.rows(), bias, out);
      } else {
        for (int first = 0; first < rows; first += GROUP_ROWS) {
          int count = Math.min(GROUP_ROWS, rows - first);
          throughKernel(x, first, count, slab, weight.rows(), bias, out);
        }
      }
    }
  }

  private void throughKernel(
      FloatBuffer x, int first, int rows, Slab slab, int outCols, float[] bias, FloatBuffer out) {
    int cols = slab.cols();
    pack(slab.dtype(), x, first, rows, cols);
    int rowBytes = cols * slab.dtype().bytes();
    int step = Math.max(4, TASK_BYTES / rowBytes / 4 * 4);
    int share = (slab.rows() + 4 * pool.threads() - 1) / (4 * pool.threads());
    int chunk = Math.min(step, Math.max(4, (share + 3) / 4 * 4));
    int tasks = (slab.rows() + chunk - 1) / chunk;
    pool.run(
        tasks,
        (task, worker) -> {
          int row = task * chunk;
          int count = Math.min(chunk, slab.rows() - row);
          float[] y = scratch[worker].c(rows * count);
          kernels.dot(slab, row, count, packed, rows, y, scratch[worker]);
          int outCol = slab.firstRow() + row;
          for (int b = 0; b < rows; b++) {
            if (bias != null) {
              for (int i = 0; i < count; i++) {
                y[b * count + i] += bias[outCol + i];
              }
            }
            out.put((first + b) * outCols + outCol, y, b * count, count);
          }
        });
  }

  private void pack(DType dtype, FloatBuffer x, int first, int rows, int cols) {
    if (packed.length < rows * cols) {
      packed = new float[rows * cols];
    }
    for (int b = 0; b < rows; b++) {
      float[] row = scratch[0].c(cols);
      x.get((first + b) * cols, row, 0, cols);
      kernels.pack(dtype, row, 0, cols, packed, b * cols);
    }
  }

  private void throughBlas(
      FloatBuffer x, int rows, Slab slab, int outCols, float[] bias, FloatBuffer out) {
    int tile = tileRows(slab);
    int tasks = (slab.rows() + tile - 1) / tile;
    pool.run(
        tasks,
        (task, worker) -> {
          int row = task * tile;
          int count = Math.min(tile, slab.rows() - row);
          int outCol = slab.firstRow() + row;
          if (bias != null) {
            for (int b = 0; b < rows; b++) {
              out.put(b * outCols + outCol, bias, outCol, count);
            }
          }
          FloatBuffer weights = wide(slab, row, count, scratch[worker]);
          FloatBuffer to = out.duplicate().position(outCol);
          blas.multiplyTransposed(
              rows, count, slab.cols(), x.duplicate(), weights, bias != null, to, outCols);
        });
  }

  /** Rows of a tile: few enough to stay in cache, and to keep all workers busy to the end. */
  private int tileRows(Slab slab) {
    int cached = TILE_FLOATS / slab.cols();
    int share = slab.rows() / (2 * pool.threads());
    return Math.max(32, Math.min(cached, share) / 16 * 16);
  }

  private FloatBuffer wide(Slab slab, int row, int count, Scratch own) {
    int cols = slab.cols();
    if (slab.dtype() == DType.F32) {
      int at = (int) slab.rowOffset(row);
      return slab.bytes()
          .slice(at, count * cols * Float.BYTES)
          .order(ByteOrder.LITTLE_ENDIAN)
          .asFloatBuffer();
    }
    FloatBuffer wide = own.nativeFloats(count * cols);
    float[] one = own.b(cols);
    for (int i = 0; i < count; i++) {
      slab.widenRow(row + i, kernels, own, one);
      wide.put(i * cols, one, 0, cols);
    }
    return wide.duplicate().position(0);
  }
}
