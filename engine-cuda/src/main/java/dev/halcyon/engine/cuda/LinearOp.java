package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.DType;

/**
 * Linear layers through cuBLASLt. Weights that are float32 where activations are not are multiplied
 * in float32: the rows are widened before and the result is narrowed after.
 */
final class LinearOp implements AutoCloseable {

  private static final int ALIGNMENT = 256;

  private final DType activations;
  private final Gemm gemm;
  private final RowOps rowOps;
  private final ConvertOps convert;
  private final DeviceScratch wideRows;

  LinearOp(
      CudaContext context,
      CudaMemory memory,
      DType activations,
      RowOps rowOps,
      ConvertOps convert) {
    this.activations = activations;
    this.rowOps = rowOps;
    this.convert = convert;
    this.wideRows = new DeviceScratch(memory, "rows widened to float32");
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
    long first = (inputs * Float.BYTES + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    long wide = wideRows.atLeast(first + outputs * Float.BYTES);
    long result = wide + first;
    convert.widen(x, activations, inputs, wide);
    boolean fused = bias != null && bias.resident() == DType.F32;
    gemm.run(wide, rows, weight, fused ? bias.address() : 0, result);
    convert.narrow(result, outputs, out);
    if (bias != null && !fused) {
      rowOps.addBias(out, bias, rows, weight.rows());
    }
  }

  /** Runs steps in which the algorithm of each product is chosen by time. */
  void tuning(Runnable steps) {
    gemm.tuning(steps);
  }

  @Override
  public void close() {
    wideRows.close();
    gemm.close();
  }
}
