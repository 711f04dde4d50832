package dev.halcyon.engine;

/**
 * What device memory is used for, in bytes.
 *
 * @param weights the model's weights; none where they are mapped files
 * @param workspace buffers of a step, tables, the workspaces of logits, and what the device's
 *     software holds for itself
 * @param kvCache the KV cache
 * @param results what requests have there: context logits, and the buffers that they went through
 * @param peak the most that all of it was at once
 */
public record DeviceMemoryUse(long weights, long workspace, long kvCache, long results, long peak) {

  /** The bytes in use for whatever it is. */
  public long total() {
    return weights + workspace + kvCache + results;
  }
}
