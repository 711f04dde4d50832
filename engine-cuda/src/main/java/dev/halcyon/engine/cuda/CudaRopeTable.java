package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.RopeLayout;
import dev.halcyon.engine.backend.RopeTable;
import java.nio.FloatBuffer;

/** Cosines, then sines, of [positions, rotaryDim / 2] each, float32, on the device. */
final class CudaRopeTable implements RopeTable {

  private static final int PIECE = 1 << 16;

  private final int positions;
  private final int rotaryDim;
  private final RopeLayout layout;
  private final CudaBuffer buffer;

  private CudaRopeTable(int positions, int rotaryDim, RopeLayout layout, CudaBuffer buffer) {
    this.positions = positions;
    this.rotaryDim = rotaryDim;
    this.layout = layout;
    this.buffer = buffer;
  }

  /**
   * Sends a table to the device.
   *
   * @throws dev.halcyon.engine.logits.OutOfDeviceMemoryException if there is no room for it
   */
  static CudaRopeTable load(
      CudaMemory memory,
      UploadRing uploads,
      int positions,
      int rotaryDim,
      RopeLayout layout,
      FloatBuffer cos,
      FloatBuffer sin) {
    int size = RopeTable.requireComplete(positions, rotaryDim, cos, sin);
    CudaBuffer buffer = memory.allocateUninitialized(2L * size * Float.BYTES, "a rope table");
    try {
      uploads.to(buffer.address());
      send(uploads, cos.duplicate(), size);
      send(uploads, sin.duplicate(), size);
      uploads.end();
      return new CudaRopeTable(positions, rotaryDim, layout, buffer);
    } catch (RuntimeException | Error e) {
      buffer.close();
      throw e;
    }
  }

  private static void send(UploadRing uploads, FloatBuffer from, int size) {
    float[] piece = new float[Math.min(PIECE, size)];
    for (int sent = 0; sent < size; ) {
      int count = Math.min(piece.length, size - sent);
      from.get(piece, 0, count);
      uploads.floats(piece, 0, count);
      sent += count;
    }
  }

  static CudaRopeTable of(RopeTable table) {
    if (!(table instanceof CudaRopeTable cuda)) {
      throw new IllegalArgumentException("rope is not a table of the CUDA backend: " + table);
    }
    return cuda;
  }

  long cos() {
    return buffer.address();
  }

  long sin() {
    return buffer.address() + (long) positions * (rotaryDim / 2) * Float.BYTES;
  }

  RopeLayout layout() {
    return layout;
  }

  @Override
  public int positions() {
    return positions;
  }

  @Override
  public int rotaryDim() {
    return rotaryDim;
  }

  @Override
  public void close() {
    buffer.close();
  }
}
