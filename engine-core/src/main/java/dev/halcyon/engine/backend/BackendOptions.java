package dev.halcyon.engine.backend;

import dev.halcyon.engine.DTypeChoice;

/**
 * What a backend is opened with.
 *
 * @param threads worker threads for CPU work, at least 1
 * @param memoryBytes the budget of {@link Backend#memory()}; 0 lets the backend choose
 * @param hostMemoryBytes the budget of {@link Backend#hostMemory()}; 0 for a quarter of physical
 *     memory
 * @param deviceIndex which device, from 0; ignored by the CPU
 * @param dtype the type of activations that was asked for
 * @param modelType the type of the model's weights, for those that asked for none
 * @param graphs whether steps may be recorded and repeated, where the device can do that
 * @param deterministic whether nothing that bears on rounding may be chosen by measuring time
 */
public record BackendOptions(
    int threads,
    long memoryBytes,
    long hostMemoryBytes,
    int deviceIndex,
    DTypeChoice dtype,
    DType modelType,
    boolean graphs,
    boolean deterministic) {

  /** Options with steps recorded, and algorithms chosen by their time. */
  public BackendOptions(
      int threads,
      long memoryBytes,
      long hostMemoryBytes,
      int deviceIndex,
      DTypeChoice dtype,
      DType modelType) {
    this(threads, memoryBytes, hostMemoryBytes, deviceIndex, dtype, modelType, true, false);
  }

  /** Options for a model of float32, with no type of activations asked for. */
  public BackendOptions(int threads, long memoryBytes, long hostMemoryBytes, int deviceIndex) {
    this(threads, memoryBytes, hostMemoryBytes, deviceIndex, DTypeChoice.AUTO, DType.F32);
  }

  /** Whether activations may have a type: the one asked for, or any if none was. */
  public boolean allows(DType type) {
    return dtype == DTypeChoice.AUTO || activationType() == type;
  }

  /** The type of activations: the one asked for, or else the model's. */
  public DType activationType() {
    return switch (dtype) {
      case AUTO -> modelType;
      case F32 -> DType.F32;
      case F16 -> DType.F16;
      case BF16 -> DType.BF16;
    };
  }
}
