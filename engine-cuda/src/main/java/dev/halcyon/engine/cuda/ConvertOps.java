package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.DType;

/** Conversions between element types; kernels in convert.cu. */
final class ConvertOps {

  private static final int THREADS = 256;

  /** As convert.cu's EACH. */
  private static final int ELEMENTS_OF_THREAD = 8;

  private final Launch launch;
  private final Kernel widenF16;
  private final Kernel widenBf16;
  private final Kernel narrow;

  ConvertOps(KernelLibrary library, Launch launch) {
    this.launch = launch;
    widenF16 = library.kernel(KernelSource.CONVERT, "widen_f16");
    widenBf16 = library.kernel(KernelSource.CONVERT, "widen_bf16");
    narrow = library.kernel(KernelSource.CONVERT, "narrow");
  }

  /**
   * Half-precision elements to float32.
   *
   * @param type F16 or BF16
   */
  void widen(long from, DType type, long count, long to) {
    run(type == DType.F16 ? widenF16 : widenBf16, from, count, to);
  }

  /** Float32 elements to activations. */
  void narrow(long from, long count, long to) {
    run(narrow, from, count, to);
  }

  private void run(Kernel kernel, long from, long count, long to) {
    long each = (long) THREADS * ELEMENTS_OF_THREAD;
    launch
        .of(kernel)
        .address(from)
        .i64(count)
        .address(to)
        .run(Math.toIntExact((count + each - 1) / each), THREADS);
  }
}
