package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cublas.cublasLtMatmulAlgoCheck;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulAlgoGetHeuristic;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulDescCreate;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulDescDestroy;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulDescSetAttribute;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulPreferenceCreate;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulPreferenceDestroy;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulPreferenceSetAttribute;
import static org.bytedeco.cuda.global.cublas.cublasLtMatrixLayoutCreate;
import static org.bytedeco.cuda.global.cublas.cublasLtMatrixLayoutDestroy;
import static org.bytedeco.cuda.global.cublas.cublasLtMatrixLayoutSetAttribute;

import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.Owned;
import dev.halcyon.engine.cuda.Gemm.Shape;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import org.bytedeco.cuda.cublas.cublasLtContext;
import org.bytedeco.cuda.cublas.cublasLtMatmulAlgo_t;
import org.bytedeco.cuda.cublas.cublasLtMatmulDescOpaque_t;
import org.bytedeco.cuda.cublas.cublasLtMatmulHeuristicResult_t;
import org.bytedeco.cuda.cublas.cublasLtMatmulPreferenceOpaque_t;
import org.bytedeco.cuda.cublas.cublasLtMatrixLayoutOpaque_t;
import org.bytedeco.cuda.global.cublas;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.IntPointer;
import org.bytedeco.javacpp.LongPointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerPointer;

/**
 * How cuBLASLt computes one shape. Its matrices are column-major, so it is asked for the transpose:
 * out' [out, rows] = weight [in, out]' * x' [in, rows].
 */
final class GemmPlan implements AutoCloseable {

  private static final int MAX_ALGORITHMS = 8;

  /** After rows that the algorithm can't do, so that they are looked at again. */
  private static final int NO_ROWS = -1;

  private final Owned owned;
  private final cublasLtMatmulDescOpaque_t operation;
  private final cublasLtMatrixLayoutOpaque_t weight;
  private final cublasLtMatrixLayoutOpaque_t input;
  private final cublasLtMatrixLayoutOpaque_t output;
  private final Shape shape;
  private final cublasLtMatmulAlgo_t[] algorithms;
  private final LongPointer attribute;
  private final LongPointer biasAddress;
  private int rows;
  private int chosen;
  private boolean tuned;
  private long bias;

  private GemmPlan(cublasLtContext handle, Shape shape, Owned owned) {
    this.owned = owned;
    this.shape = shape;
    this.rows = shape.rows();
    attribute = kept(new LongPointer(1));
    biasAddress = kept(new LongPointer(1));
    operation = operation(shape);
    weight = layout(shape.type(), shape.in(), shape.out());
    input = layout(shape.type(), shape.in(), shape.rows());
    output = layout(shape.type(), shape.out(), shape.rows());
    algorithms = propose(handle);
  }

  static GemmPlan of(cublasLtContext handle, Shape shape) {
    Owned owned = new Owned();
    try {
      return new GemmPlan(handle, shape, owned);
    } catch (RuntimeException | Error e) {
      owned.closeAfter(e);
      throw e;
    }
  }

  private <T extends Pointer> T kept(T pointer) {
    owned.add(pointer::close);
    return pointer;
  }

  private cublasLtMatmulDescOpaque_t operation(Shape shape) {
    try (PointerPointer<Pointer> made = new PointerPointer<>(1)) {
      check(
          cublasLtMatmulDescCreate(made, cublas.CUBLAS_COMPUTE_32F, cudart.CUDA_R_32F),
          "describing " + shape);
      cublasLtMatmulDescOpaque_t created = new cublasLtMatmulDescOpaque_t(made.get());
      owned.add(() -> cublasLtMatmulDescDestroy(created));
      set(created, cublas.CUBLASLT_MATMUL_DESC_TRANSA, cublas.CUBLAS_OP_T);
      if (shape.biased()) {
        set(created, cublas.CUBLASLT_MATMUL_DESC_EPILOGUE, cublas.CUBLASLT_EPILOGUE_BIAS);
        // Until there is an address, one that is as aligned as any.
        bias(created, 256);
      }
      return created;
    }
  }

  private static void set(cublasLtMatmulDescOpaque_t operation, int attribute, int value) {
    try (IntPointer pointer = new IntPointer(1)) {
      pointer.put(value);
      check(
          cublasLtMatmulDescSetAttribute(operation, attribute, pointer, Integer.BYTES),
          "describing a product");
    }
  }

  private void bias(cublasLtMatmulDescOpaque_t described, long address) {
    biasAddress.put(address);
    check(
        cublasLtMatmulDescSetAttribute(
            described, cublas.CUBLASLT_MATMUL_DESC_BIAS_POINTER, biasAddress, Long.BYTES),
        "describing a product");
    bias = address;
  }

  /** The bias of the next product; 0 where the shape has none. */
  void bias(long address) {
    if (address != bias) {
      bias(operation, address);
    }
  }

  private cublasLtMatrixLayoutOpaque_t layout(DType type, int rows, int cols) {
    try (PointerPointer<Pointer> made = new PointerPointer<>(1)) {
      check(
          cublasLtMatrixLayoutCreate(made, number(type), rows, cols, rows), "describing a matrix");
      cublasLtMatrixLayoutOpaque_t created = new cublasLtMatrixLayoutOpaque_t(made.get());
      owned.add(() -> cublasLtMatrixLayoutDestroy(created));
      return created;
    }
  }

  private static int number(DType type) {
    return switch (type) {
      case F32 -> cudart.CUDA_R_32F;
      case F16 -> cudart.CUDA_R_16F;
      case BF16 -> cudart.CUDA_R_16BF;
    };
  }

  /** What cuBLASLt holds to be fast, the fastest first. */
  private cublasLtMatmulAlgo_t[] propose(cublasLtContext handle) {
    cublasLtMatmulHeuristicResult_t results =
        kept(new cublasLtMatmulHeuristicResult_t(MAX_ALGORITHMS));
    try (PointerPointer<Pointer> made = new PointerPointer<>(1);
        IntPointer found = new IntPointer(1)) {
      check(cublasLtMatmulPreferenceCreate(made), "choosing for " + shape);
      cublasLtMatmulPreferenceOpaque_t preference =
          new cublasLtMatmulPreferenceOpaque_t(made.get());
      try {
        prefer(preference, shape);
        found.put(0);
        int code =
            cublasLtMatmulAlgoGetHeuristic(
                handle,
                operation,
                weight,
                input,
                output,
                output,
                preference,
                MAX_ALGORITHMS,
                results,
                found);
        check(code, "choosing an algorithm for " + shape);
        if (found.get() < 1) {
          throw new CudaException("cuBLASLt has no algorithm for " + shape, 0, false);
        }
        cublasLtMatmulAlgo_t[] proposed = new cublasLtMatmulAlgo_t[found.get()];
        for (int i = 0; i < proposed.length; i++) {
          proposed[i] = results.getPointer(i).algo();
        }
        return proposed;
      } finally {
        cublasLtMatmulPreferenceDestroy(preference);
      }
    }
  }

  private static void prefer(cublasLtMatmulPreferenceOpaque_t preference, Shape shape) {
    try (LongPointer bytes = new LongPointer(1);
        IntPointer value = new IntPointer(1)) {
      bytes.put(Gemm.WORKSPACE_BYTES);
      check(
          cublasLtMatmulPreferenceSetAttribute(
              preference, cublas.CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes, Long.BYTES),
          "choosing an algorithm");
      // Parts of a split sum are added in float32, never in the output's type.
      value.put(
          cublas.CUBLASLT_REDUCTION_SCHEME_INPLACE | cublas.CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
      set(preference, cublas.CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, value);
      value.put(shape.alignment());
      set(preference, cublas.CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, value);
      set(preference, cublas.CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, value);
      set(preference, cublas.CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, value);
      set(preference, cublas.CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, value);
    }
  }

  private static void set(
      cublasLtMatmulPreferenceOpaque_t preference, int attribute, IntPointer value) {
    check(
        cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, Integer.BYTES),
        "choosing an algorithm");
  }

  /**
   * Checks what a function of cuBLAS returned.
   *
   * @throws OutOfDeviceMemoryException if there was no room for what it needs itself
   * @throws CudaException if it failed for another reason
   */
  static void check(int code, String what) {
    if (code == cublas.CUBLAS_STATUS_ALLOC_FAILED) {
      throw new OutOfDeviceMemoryException(what, 0, 0);
    }
    if (code != 0) {
      throw new CudaException(what + " failed: cuBLAS status " + code, code, false);
    }
  }

  cublasLtMatmulDescOpaque_t operation() {
    return operation;
  }

  cublasLtMatrixLayoutOpaque_t weight() {
    return weight;
  }

  cublasLtMatrixLayoutOpaque_t input() {
    return input;
  }

  cublasLtMatrixLayoutOpaque_t output() {
    return output;
  }

  Shape shape() {
    return shape;
  }

  /**
   * Sets the rows of the next product.
   *
   * @param count at most those that the plan was made for
   * @return false if the chosen algorithm can't do these
   */
  boolean rows(cublasLtContext handle, int count) {
    if (count == rows) {
      return true;
    }
    cols(input, count);
    cols(output, count);
    rows = count;
    if (count == shape.rows()) {
      return true;
    }
    try (cublasLtMatmulHeuristicResult_t result = new cublasLtMatmulHeuristicResult_t()) {
      int code =
          cublasLtMatmulAlgoCheck(
              handle, operation, weight, input, output, output, algorithms[chosen], result);
      if (code == 0 && result.workspaceSize() <= Gemm.WORKSPACE_BYTES) {
        return true;
      }
      rows = NO_ROWS;
      return false;
    }
  }

  private void cols(cublasLtMatrixLayoutOpaque_t layout, int count) {
    attribute.put(count);
    check(
        cublasLtMatrixLayoutSetAttribute(
            layout, cublas.CUBLASLT_MATRIX_LAYOUT_COLS, attribute, Long.BYTES),
        "describing a matrix");
  }

  /** How many algorithms there are to choose from. */
  int algorithms() {
    return algorithms.length;
  }

  cublasLtMatmulAlgo_t algorithm(int number) {
    return algorithms[number];
  }

  /** The algorithm to use. */
  int chosen() {
    return chosen;
  }

  /** Whether it was chosen by time. */
  boolean tuned() {
    return tuned;
  }

  /** Chooses the algorithm to use. */
  void tuned(int number) {
    chosen = number;
    tuned = true;
  }

  @Override
  public void close() {
    owned.close();
  }
}
