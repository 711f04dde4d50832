package dev.halcyon.engine.backend.cpu;

import java.nio.FloatBuffer;
import java.util.Optional;
import org.bytedeco.openblas.global.openblas_nolapack;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * OpenBLAS, single-threaded: the engine's {@link WorkerPool} calls it from each worker, so that one
 * setting governs all threads and two pools don't fight over the cores. OpenBLAS has one thread
 * count for the whole process; this is the only place that sets it.
 */
final class Blas {

  private static final Logger LOG = LoggerFactory.getLogger(Blas.class);

  private Blas() {
    openblas_nolapack.blas_set_num_threads(1);
  }

  /** Empty, with a line in the log, where there is no OpenBLAS for this platform. */
  static Optional<Blas> load() {
    try {
      return Optional.of(new Blas());
    } catch (LinkageError e) {
      LOG.warn("OpenBLAS can't be loaded; long prompts take the engine's own, slower kernel", e);
      return Optional.empty();
    }
  }

  /**
   * c = a * transpose(b), plus c where {@code add}: a is [m, k], b [n, k], c [m, n] with {@code
   * ldc} elements from row to row. Each buffer is direct and starts at its position.
   */
  void multiplyTransposed(
      int m, int n, int k, FloatBuffer a, FloatBuffer b, boolean add, FloatBuffer c, int ldc) {
    checkRemaining(a, (long) m * k);
    checkRemaining(b, (long) n * k);
    checkRemaining(c, (m - 1L) * ldc + n);
    openblas_nolapack.cblas_sgemm(
        openblas_nolapack.CblasRowMajor,
        openblas_nolapack.CblasNoTrans,
        openblas_nolapack.CblasTrans,
        m,
        n,
        k,
        1f,
        a,
        k,
        b,
        k,
        add ? 1f : 0f,
        c,
        ldc);
  }

  private static void checkRemaining(FloatBuffer buffer, long needed) {
    if (!buffer.isDirect() || buffer.remaining() < needed) {
      throw new IndexOutOfBoundsException(
          "A matrix needs " + needed + " floats, its buffer has " + buffer.remaining());
    }
  }
}
