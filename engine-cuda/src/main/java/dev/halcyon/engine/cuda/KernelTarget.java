package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.DType;
import java.util.Arrays;
import java.util.List;

/**
 * What kernels are compiled for.
 *
 * @param architecture NVRTC's name of it, as "sm_90a", or "compute_90" for the driver to compile
 *     the rest of the way
 * @param activations the type of activations
 */
record KernelTarget(String architecture, DType activations) {

  /**
   * The best that the compiler has for a device: its own architecture with the instructions that
   * only it has; else the newest one of the same major number, whose code it runs; else the newest
   * older one in the form that the driver translates.
   *
   * @param supported the architectures that the compiler knows, as 90 for 9.0
   */
  static KernelTarget of(CudaDevice device, int[] supported, DType activations) {
    int own = device.major() * 10 + device.minor();
    int best =
        Arrays.stream(supported)
            .filter(known -> known <= own)
            .max()
            .orElseThrow(
                () ->
                    new IllegalStateException(
                        "NVRTC knows no architecture that " + device.name() + " runs"));
    String name;
    if (best == own) {
      // From 9.0 on there are instructions, such as wgmma, that need the suffix.
      name = "sm_" + own + (own >= 90 ? "a" : "");
    } else if (best / 10 == device.major()) {
      name = "sm_" + best;
    } else {
      name = "compute_" + best;
    }
    return new KernelTarget(name, activations);
  }

  /** The compiler's options; nvcc takes the same. */
  List<String> options() {
    return List.of("--std=c++17", "-DHALCYON_ACT=" + number(activations));
  }

  /** As halcyon.cuh numbers the types. */
  private static int number(DType type) {
    return switch (type) {
      case F32 -> 0;
      case F16 -> 1;
      case BF16 -> 2;
    };
  }

  /** Whether what the compiler puts out is machine code. */
  boolean isMachineCode() {
    return architecture.startsWith("sm_");
  }
}
