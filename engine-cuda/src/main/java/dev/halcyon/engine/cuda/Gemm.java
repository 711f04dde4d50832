package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cublas.cublasLtCreate;
import static org.bytedeco.cuda.global.cublas.cublasLtDestroy;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmul;

import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.Owned;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.bytedeco.cuda.cublas.cublasLtContext;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.FloatPointer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * out[row, o] = sum over i of x[row, i] * weight[o, i], plus bias[o], with one element type for all
 * of them and float32 sums. float32 operands are multiplied in float32, without TF32.
 */
final class Gemm implements AutoCloseable {

  /** What cuBLAS may use to split sums; its advice for Hopper. */
  static final long WORKSPACE_BYTES = 32L << 20;

  private static final Logger LOG = LoggerFactory.getLogger(Gemm.class);

  private static final int MAX_PLANS = 4096;

  private final CudaContext context;
  private final Owned owned = new Owned();
  private final cublasLtContext handle = new cublasLtContext();
  private final CudaBuffer workspace;
  private final FloatPointer one = new FloatPointer(1f);
  private final FloatPointer zero = new FloatPointer(0f);
  private final DevicePointer a = new DevicePointer();
  private final DevicePointer b = new DevicePointer();
  private final DevicePointer d = new DevicePointer();
  private final DevicePointer scratch;
  private final CudaMemory memory;
  private final Map<Shape, GemmPlan> plans = new LinkedHashMap<>(64, 0.75f, true);

  /** Set while algorithms are chosen by time. */
  private GemmTimer timer;

  /**
   * What a plan is made for.
   *
   * @param rows the most rows; a plan serves all numbers down to the next bucket
   * @param type of x, weight, bias and out
   * @param biased whether there is a bias
   * @param alignment the bytes that all addresses are multiples of, at most 16
   */
  record Shape(int rows, int in, int out, DType type, boolean biased, int alignment) {

    /** The same with another number of rows. */
    Shape of(int otherRows) {
      return new Shape(otherRows, in, out, type, biased, alignment);
    }
  }

  Gemm(CudaContext context, CudaMemory memory) {
    this.context = context;
    this.memory = memory;
    try {
      GemmPlan.check(cublasLtCreate(handle), "starting cuBLASLt");
      owned.add(() -> cublasLtDestroy(handle));
      workspace = memory.allocateOwn(WORKSPACE_BYTES, "workspace of cuBLAS");
      owned.add(workspace::close);
      scratch = new DevicePointer(workspace.address());
    } catch (RuntimeException | Error e) {
      owned.closeAfter(e);
      throw e;
    }
  }

  /**
   * Runs steps in which each product of a shape that has not been seen tries several algorithms and
   * keeps the fastest. Without, or where there is no room for timing, the first one that cuBLASLt
   * proposes is taken.
   */
  void tuning(Runnable steps) {
    try (GemmTimer timing = timer()) {
      timer = timing;
      steps.run();
    } finally {
      timer = null;
    }
  }

  private GemmTimer timer() {
    try {
      return new GemmTimer(context, memory);
    } catch (OutOfDeviceMemoryException e) {
      LOG.info("Algorithms of matrix products are not chosen by time: {}", e.getMessage());
      return null;
    }
  }

  /**
   * @param bias the address of a bias of the weight's type; 0 for none
   */
  void run(long x, int rows, CudaMatrix weight, long bias, long out) {
    int alignment = alignment(weight, x | weight.address() | bias | out);
    GemmPlan plan =
        plan(
            new Shape(
                RowBuckets.of(rows),
                weight.cols(),
                weight.rows(),
                weight.resident(),
                bias != 0,
                alignment));
    if (!plan.rows(handle, rows)) {
      // An algorithm for a few rows more is not always one for these.
      plan = plan(plan.shape().of(rows));
    }
    plan.bias(bias);
    if (timer != null && !plan.tuned()) {
      GemmPlan tried = plan;
      tried.tuned(
          timer.fastest(
              tried.algorithms(), number -> multiply(tried, number, x, weight.address(), out)));
    }
    multiply(plan, plan.chosen(), x, weight.address(), out);
  }

  private void multiply(GemmPlan plan, int algorithm, long x, long weight, long out) {
    int code =
        cublasLtMatmul(
            handle,
            plan.operation(),
            one,
            a.at(weight),
            plan.weight(),
            b.at(x),
            plan.input(),
            zero,
            d.at(out),
            plan.output(),
            d,
            plan.output(),
            plan.algorithm(algorithm),
            scratch,
            WORKSPACE_BYTES,
            context.compute());
    if (code != 0) {
      // Where the device is the cause, CUDA says more than cuBLAS.
      context.check(cudart.cudaGetLastError(), "multiplying " + plan.shape());
      GemmPlan.check(code, "multiplying " + plan.shape());
    }
  }

  /**
   * What all rows are aligned to. It goes by the length of rows before addresses, so that rows get
   * the same algorithm, and so the same sums, wherever in a buffer they lie.
   */
  private static int alignment(CudaMatrix weight, long addresses) {
    long in = (long) weight.cols() * weight.resident().bytes();
    long out = (long) weight.rows() * weight.resident().bytes();
    return (int) Long.lowestOneBit(in | out | addresses | 16);
  }

  private GemmPlan plan(Shape shape) {
    GemmPlan plan = plans.get(shape);
    if (plan == null) {
      if (plans.size() >= MAX_PLANS) {
        Shape eldest = plans.keySet().iterator().next();
        plans.remove(eldest).close();
      }
      plan = GemmPlan.of(handle, shape);
      plans.put(shape, plan);
    }
    return plan;
  }

  @Override
  public void close() {
    plans.values().forEach(GemmPlan::close);
    plans.clear();
    owned.close();
  }
}
