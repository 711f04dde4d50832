package dev.halcyon.engine.model;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.Owned;
import dev.halcyon.engine.logits.DeviceBuffer;

/**
 * The buffers of a forward pass. Attention and feed-forward never run at once, so each pair of
 * their buffers shares one.
 *
 * @param residual [rows, hidden]
 * @param normed [rows, hidden]
 * @param delta [rows, hidden], what a sublayer adds to the residual
 * @param wide packed queries, keys and values; or gate and up [rows, 2 * intermediate]
 * @param inner attention's output [rows, heads * headDim]; or the activated [rows, intermediate]
 */
record Scratch(
    DeviceBuffer residual,
    DeviceBuffer normed,
    DeviceBuffer delta,
    DeviceBuffer wide,
    DeviceBuffer inner) {

  private static final int HIDDEN_BUFFERS = 3;

  /** Allocates the buffers; those that were made are owned even if a later one fails. */
  static Scratch allocate(ModelConfig config, Backend backend, int rows, Owned owned) {
    return new Scratch(
        buffer(backend, rows, config.hiddenSize(), "residual rows", owned),
        buffer(backend, rows, config.hiddenSize(), "normalised rows", owned),
        buffer(backend, rows, config.hiddenSize(), "sublayer outputs", owned),
        buffer(backend, rows, wideCols(config), "packed projections", owned),
        buffer(backend, rows, innerCols(config), "inner rows", owned));
  }

  static long bytes(ModelConfig config, Backend backend, int rows) {
    return HIDDEN_BUFFERS * backend.activationBytes(rows, config.hiddenSize())
        + backend.activationBytes(rows, wideCols(config))
        + backend.activationBytes(rows, innerCols(config));
  }

  static DeviceBuffer buffer(Backend backend, int rows, int cols, String what, Owned owned) {
    DeviceBuffer buffer =
        backend
            .memory()
            .allocate(backend.activationBytes(rows, cols), what + " [" + rows + ", " + cols + "]");
    owned.add(buffer::close);
    return buffer;
  }

  private static int wideCols(ModelConfig config) {
    return Math.max(config.packedCols(), 2 * config.intermediateSize());
  }

  private static int innerCols(ModelConfig config) {
    return Math.max(config.heads() * config.headDim(), config.intermediateSize());
  }
}
