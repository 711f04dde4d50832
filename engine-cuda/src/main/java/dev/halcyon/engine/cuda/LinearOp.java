package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.DType;

/**
 * Linear layers through cuBLASLt. Weights that are float32 where activations are not are multiplied
 * in float32: the rows are widened before and the result is narrowed after.
 */
final class LinearOp implements AutoCloseable {

  private final CudaMemory memory;
  private final DType activations;
  private final Gemm gemm;
  private final RowOps rowOps;
  private final ConvertOps convert;

  LinearOp(
      CudaContext context,
      CudaMemory memory,
      DType activations,
      RowOps rowOps,
      ConvertOps convert) {
    this.memory = memory;
    this.activations = activations;
    this.rowOps = rowOps;
    this.convert = convert;
    this.gemm = new Gemm(context, memory);
  }

  /**
   * @param bias null for none
   */
  void run(long x, int rows, CudaMatrix weight, CudaMatrix bias, long out) {
    if (rows == 0) {
      return;
    }
    if (weight.resident() == activations) {
      boolean fused = bias != null && bias.resident() == activations;
      gemm.run(x, rows, weight, fused ? bias.address() : 0, out);
      if (bias != null && !fused) {
        rowOps.addBias(out, bias, rows, weight.rows());
      }
      return;
    }
    long inputs = (long) rows * weight.cols();
    long outputs = (long) rows * weight.rows();
    try (CudaBuffer wide = memory.allocateUninitialized(inputs * Float.BYTES, "wide rows");
        CudaBuffer result = memory.allocateUninitialized(outputs * Float.BYTES, "wide rows")) {
      convert.widen(x, activations, inputs, wide.address());
      boolean fused = bias != null && bias.resident() == DType.F32;
      gemm.run(wide.address(), rows, weight, fused ? bias.address() : 0, result.address());
      convert.narrow(result.address(), outputs, out);
      if (bias != null && !fused) {
        rowOps.addBias(out, bias, rows, weight.rows());
      }
    }
  }

  @Override
  public void close() {
    gemm.close();
  }
}
