package dev.halcyon.engine.benchmarks;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import org.bytedeco.javacpp.FloatPointer;
import org.bytedeco.openblas.global.openblas_nolapack;

/**
 * What OpenBLAS reaches on this machine with float32 matrices, which is the limit of the engine's
 * prefill: the better of one product over all threads and of one product a thread at the same time.
 * Leaves OpenBLAS at one thread a call, which is how the engine uses it.
 */
final class SgemmPeak {

  private SgemmPeak() {}

  /** Floating-point operations a second with square matrices of the given size. */
  static double measure(ExecutorService pool, int threads, int size, int passes) throws Exception {
    try {
      openblas_nolapack.blas_set_num_threads(threads);
      double together = bestPass(pool, 1, size, passes);
      openblas_nolapack.blas_set_num_threads(1);
      double apart = bestPass(pool, threads, size, passes);
      return Math.max(together, apart);
    } finally {
      openblas_nolapack.blas_set_num_threads(1);
    }
  }

  private static double bestPass(ExecutorService pool, int products, int size, int passes)
      throws Exception {
    List<FloatPointer> matrices = new ArrayList<>();
    try {
      List<Callable<Void>> tasks = new ArrayList<>();
      for (int i = 0; i < products; i++) {
        FloatPointer a = matrix(size, matrices);
        FloatPointer b = matrix(size, matrices);
        FloatPointer c = matrix(size, matrices);
        tasks.add(
            () -> {
              multiply(a, b, c, size);
              return null;
            });
      }
      double best = 0;
      for (int pass = 0; pass < passes; pass++) {
        long start = System.nanoTime();
        for (var future : pool.invokeAll(tasks)) {
          future.get();
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        best = Math.max(best, products * 2.0 * size * size * size / seconds);
      }
      return best;
    } finally {
      matrices.forEach(FloatPointer::deallocate);
    }
  }

  private static FloatPointer matrix(int size, List<FloatPointer> owned) {
    FloatPointer matrix = new FloatPointer((long) size * size);
    owned.add(matrix);
    float[] row = new float[size];
    for (int i = 0; i < size; i++) {
      row[i] = (i % 17 - 8) / 8f;
    }
    for (int i = 0; i < size; i++) {
      matrix.position((long) i * size).put(row);
    }
    matrix.position(0);
    return matrix;
  }

  private static void multiply(FloatPointer a, FloatPointer b, FloatPointer c, int n) {
    openblas_nolapack.cblas_sgemm(
        openblas_nolapack.CblasRowMajor,
        openblas_nolapack.CblasNoTrans,
        openblas_nolapack.CblasTrans,
        n,
        n,
        n,
        1f,
        a,
        n,
        b,
        n,
        0f,
        c,
        n);
  }
}
