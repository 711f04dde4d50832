package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.Activation;
import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.backend.DType;

/** What is done to rows element by element; kernels in rows.cu. */
final class RowOps {

  private static final int THREADS = 256;
  private static final int MAX_GRID_ROWS = 65535;

  private final Launch launch;
  private final int group;
  private final Kernel embed;
  private final Kernel embedF32;
  private final Kernel add;
  private final Kernel addBias;
  private final Kernel addBiasF32;
  private final Kernel gather;
  private final Kernel silu;
  private final Kernel gelu;
  private final Kernel geluTanh;
  private final Kernel transform;

  RowOps(KernelLibrary library, Launch launch, DType activations) {
    this.launch = launch;
    this.group = Groups.of(activations);
    embed = library.kernel(KernelSource.ROWS, "embed");
    embedF32 = library.kernel(KernelSource.ROWS, "embed_f32");
    add = library.kernel(KernelSource.ROWS, "add");
    addBias = library.kernel(KernelSource.ROWS, "add_bias");
    addBiasF32 = library.kernel(KernelSource.ROWS, "add_bias_f32");
    gather = library.kernel(KernelSource.ROWS, "gather_rows");
    silu = library.kernel(KernelSource.ROWS, "gated_silu");
    gelu = library.kernel(KernelSource.ROWS, "gated_gelu");
    geluTanh = library.kernel(KernelSource.ROWS, "gated_gelu_tanh");
    transform = library.kernel(KernelSource.ROWS, "transform_logits");
  }

  void embed(CudaMatrix table, CudaBatch batch, float scale, long out) {
    Batch rows = batch.batch();
    for (int row = 0; row < rows.rows(); row++) {
      int id = rows.tokenIds()[row];
      if (id < 0 || id >= table.rows()) {
        throw new IllegalArgumentException(
            "Token id " + id + " is outside a table of " + table.rows() + " rows");
      }
    }
    launch
        .of(table.resident() == DType.F32 ? embedF32 : embed)
        .address(table.address())
        .address(batch.tokenIds())
        .f32(scale)
        .i32(rows.rows())
        .i32(table.cols())
        .address(out);
    run(rows.rows(), table.cols());
  }

  void add(long residual, long delta, int rows, int cols) {
    launch.of(add).address(residual).address(delta).i32(rows).i32(cols);
    run(rows, cols);
  }

  /** x[row] += bias. */
  void addBias(long x, CudaMatrix bias, int rows, int cols) {
    launch
        .of(bias.resident() == DType.F32 ? addBiasF32 : addBias)
        .address(x)
        .address(bias.address())
        .i32(rows)
        .i32(cols);
    run(rows, cols);
  }

  /**
   * @param indices the address of count integers, each a row of x
   */
  void gather(long x, int cols, long indices, int count, long out) {
    launch.of(gather).address(x).address(indices).i32(count).i32(cols).address(out);
    run(count, cols);
  }

  void gatedActivation(long gateUp, int rows, int inner, Activation activation, long out) {
    Kernel kernel =
        switch (activation) {
          case SILU -> silu;
          case GELU -> gelu;
          case GELU_TANH -> geluTanh;
        };
    launch.of(kernel).address(gateUp).i32(rows).i32(inner).address(out);
    run(rows, inner);
  }

  void transformLogits(long logits, int rows, int cols, float scale, float softcap) {
    if (scale == 1 && softcap == 0) {
      return;
    }
    launch.of(transform).address(logits).i32(rows).i32(cols).f32(scale).f32(softcap);
    run(rows, cols);
  }

  /** Starts the kernel in the shape that rows.cu describes. */
  private void run(int rows, int cols) {
    int groups = Groups.ceilDiv(cols, group);
    int threads = Math.min(THREADS, Groups.wholeWarps(groups));
    launch.run(Groups.ceilDiv(groups, threads), Math.min(rows, MAX_GRID_ROWS), 1, threads, 0);
  }
}
