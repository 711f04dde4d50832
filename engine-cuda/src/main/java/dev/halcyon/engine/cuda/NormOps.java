package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.DType;

/** RMS and layer norms; kernels in norms.cu. */
final class NormOps {

  private static final int MAX_THREADS = 512;

  /** As norms.cu's KEPT. */
  private static final int KEPT_GROUPS = 4;

  private static final int HEAD_THREADS = 128;
  private static final int WARP = 32;

  private final Launch launch;
  private final int group;
  private final Kernels own;
  private final Kernels float32;

  /** The kernels for weights of one type. */
  private record Kernels(Kernel rms, Kernel addRms, Kernel layer, Kernel heads) {

    static Kernels of(KernelLibrary library, String suffix) {
      return new Kernels(
          library.kernel(KernelSource.NORMS, "rms_norm" + suffix),
          library.kernel(KernelSource.NORMS, "add_rms_norm" + suffix),
          library.kernel(KernelSource.NORMS, "layer_norm" + suffix),
          library.kernel(KernelSource.NORMS, "rms_norm_heads" + suffix));
    }
  }

  NormOps(KernelLibrary library, Launch launch, DType activations) {
    this.launch = launch;
    this.group = Groups.of(activations);
    own = Kernels.of(library, "");
    float32 = Kernels.of(library, "_f32");
  }

  private Kernels kernels(CudaMatrix weight) {
    return weight.resident() == DType.F32 ? float32 : own;
  }

  void rmsNorm(long x, CudaMatrix weight, float weightOffset, float eps, int rows, long out) {
    launch
        .of(kernels(weight).rms())
        .address(x)
        .address(weight.address())
        .f32(weightOffset)
        .f32(eps)
        .i32(weight.cols())
        .address(out)
        .run(rows, threads(weight.cols()));
  }

  void addRmsNorm(
      long residual,
      long delta,
      CudaMatrix weight,
      float weightOffset,
      float eps,
      int rows,
      long out) {
    launch
        .of(kernels(weight).addRms())
        .address(residual)
        .address(delta)
        .address(weight.address())
        .f32(weightOffset)
        .f32(eps)
        .i32(weight.cols())
        .address(out)
        .run(rows, threads(weight.cols()));
  }

  void layerNorm(long x, CudaMatrix weight, float eps, int rows, long out) {
    launch
        .of(kernels(weight).layer())
        .address(x)
        .address(weight.address())
        .f32(eps)
        .i32(weight.cols())
        .address(out)
        .run(rows, threads(weight.cols()));
  }

  void rmsNormHeads(
      long x,
      int rowCols,
      int firstCol,
      int heads,
      CudaMatrix weight,
      float weightOffset,
      float eps,
      int rows) {
    long warps = (long) rows * heads;
    launch
        .of(kernels(weight).heads())
        .address(x)
        .i32(rowCols)
        .i32(firstCol)
        .i32(heads)
        .address(weight.address())
        .f32(weightOffset)
        .f32(eps)
        .i32(weight.cols())
        .i32(rows)
        .run(Math.toIntExact((warps * WARP + HEAD_THREADS - 1) / HEAD_THREADS), HEAD_THREADS);
  }

  /** As few as keep the row in registers: each then has several loads under way. */
  private int threads(int cols) {
    return Math.min(MAX_THREADS, Groups.wholeWarps(Groups.ceilDiv(cols, group * KEPT_GROUPS)));
  }
}
