package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cuFuncSetAttribute;

import org.bytedeco.cuda.cudart.CUfunc_st;
import org.bytedeco.cuda.global.cudart;

/** A function of a loaded module. */
final class Kernel {

  private static final int SHARED_WITHOUT_ASKING = 48 << 10;

  private final String name;
  private final CUfunc_st function;

  Kernel(String name, CUfunc_st function) {
    this.name = name;
    this.function = function;
  }

  String name() {
    return name;
  }

  CUfunc_st function() {
    return function;
  }

  /**
   * Lets launches use up to this much dynamic shared memory. Without it static and dynamic shared
   * memory are limited to 48 KiB together.
   */
  Kernel allowShared(CudaContext context, int bytes) {
    context.check(
        cuFuncSetAttribute(function, cudart.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes),
        "giving " + name + " " + bytes + " bytes of shared memory");
    return this;
  }
}
