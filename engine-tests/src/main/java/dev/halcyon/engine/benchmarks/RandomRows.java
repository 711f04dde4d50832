package dev.halcyon.engine.benchmarks;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.backend.Matrix;
import dev.halcyon.engine.logits.DeviceBuffer;
import java.util.List;
import java.util.stream.IntStream;

/** Rows of activations on a backend, close to normal with standard deviation 1. */
final class RandomRows {

  /** From the deviation of random weights to 1. */
  private static final float SCALE = 50;

  private RandomRows() {}

  /** [rows, cols] in the backend's type, by embedding tokens of a random table. */
  static DeviceBuffer of(Backend backend, int rows, int cols, long seed) {
    int[] ids = IntStream.range(0, rows).toArray();
    Batch batch =
        new Batch(rows, ids, ids, ids, 1, new int[] {0, rows}, new int[] {rows}, new int[][] {{0}});
    DeviceBuffer buffer =
        backend.memory().allocate(backend.activationBytes(rows, cols), "hidden rows");
    // A table of one row would be a vector.
    try (Matrix table = backend.load(List.of(RandomHead.weights(Math.max(2, rows), cols, seed)))) {
      backend.embed(table, backend.upload(batch), SCALE, buffer);
      backend.synchronize();
      return buffer;
    } catch (RuntimeException | Error e) {
      buffer.close();
      throw e;
    }
  }
}
