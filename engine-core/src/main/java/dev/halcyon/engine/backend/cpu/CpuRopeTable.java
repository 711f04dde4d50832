package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.RopeLayout;
import dev.halcyon.engine.backend.RopeTable;
import java.nio.FloatBuffer;

/** Cosines and sines as arrays of [positions, rotaryDim / 2]. */
final class CpuRopeTable implements RopeTable {

  private final int positions;
  private final int rotaryDim;
  private final RopeLayout layout;
  private float[] cos;
  private float[] sin;

  CpuRopeTable(int positions, int rotaryDim, RopeLayout layout, FloatBuffer cos, FloatBuffer sin) {
    int size = RopeTable.requireComplete(positions, rotaryDim, cos, sin);
    this.positions = positions;
    this.rotaryDim = rotaryDim;
    this.layout = layout;
    this.cos = new float[size];
    this.sin = new float[size];
    cos.duplicate().get(this.cos);
    sin.duplicate().get(this.sin);
  }

  RopeLayout layout() {
    return layout;
  }

  float[] cos() {
    if (cos == null) {
      throw new IllegalStateException("The rope table is closed");
    }
    return cos;
  }

  float[] sin() {
    return sin;
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
    cos = null;
    sin = null;
  }
}
