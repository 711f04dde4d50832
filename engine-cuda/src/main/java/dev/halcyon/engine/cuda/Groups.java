package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.DType;

/** How kernels share rows out among threads: in groups of 16 bytes of activations. */
final class Groups {

  private static final int BYTES = 16;

  /** The threads of a warp. */
  static final int WARP = 32;

  private Groups() {}

  /** The elements of a group, as halcyon.cuh's GROUP. */
  static int of(DType activations) {
    return BYTES / activations.bytes();
  }

  static int ceilDiv(int count, int size) {
    return (int) (((long) count + size - 1) / size);
  }

  /** The least power of two that is no less. */
  static int ceilPowerOfTwo(int count) {
    return count <= 1 ? 1 : Integer.highestOneBit(count - 1) << 1;
  }

  /** The least number of threads, in whole warps and at least one, with a thread for each. */
  static int wholeWarps(int count) {
    return Math.max(1, ceilDiv(count, WARP)) * WARP;
  }
}
