package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.HostTensor;
import dev.halcyon.engine.backend.Matrix;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;

/**
 * Weights where they already lie, as slabs of rows. A vector (one row: norm weights and biases,
 * some kilobytes) is also kept as a float array.
 */
final class CpuMatrix implements Matrix {

  private final int rows;
  private final int cols;
  private final String name;
  private final DType type;
  private List<Slab> slabs;
  private float[] vector;

  private CpuMatrix(String name, DType type, int rows, int cols, List<Slab> slabs, float[] vector) {
    this.name = name;
    this.type = type;
    this.rows = rows;
    this.cols = cols;
    this.slabs = slabs;
    this.vector = vector;
  }

  static CpuMatrix load(List<HostTensor> parts, Kernels kernels) {
    if (parts.isEmpty()) {
      throw new IllegalArgumentException("parts must not be empty");
    }
    parts.forEach(HostTensor::requireComplete);
    if (parts.stream().allMatch(part -> part.rows() == 1)) {
      return loadVector(parts, kernels);
    }
    int cols = parts.get(0).cols();
    int rows = 0;
    List<Slab> slabs = new ArrayList<>();
    for (HostTensor part : parts) {
      if (part.cols() != cols) {
        throw new IllegalArgumentException(
            part.name() + " has " + part.cols() + " columns, " + parts.get(0).name() + " " + cols);
      }
      addSlabs(part, rows, slabs, kernels);
      rows = Math.addExact(rows, part.rows());
    }
    HostTensor first = parts.get(0);
    return new CpuMatrix(first.name(), first.dtype(), rows, cols, List.copyOf(slabs), null);
  }

  private static void addSlabs(HostTensor part, int firstRow, List<Slab> slabs, Kernels kernels) {
    int done = 0;
    for (ByteBuffer segment : part.segments()) {
      int rows = Math.min(part.rowsPerSegment(), part.rows() - done);
      slabs.add(Slab.of(part.dtype(), firstRow + done, rows, part.cols(), segment, kernels));
      done += rows;
    }
  }

  private static CpuMatrix loadVector(List<HostTensor> parts, Kernels kernels) {
    int size = 0;
    for (HostTensor part : parts) {
      size = Math.addExact(size, part.cols());
    }
    float[] vector = new float[size];
    int at = 0;
    for (HostTensor part : parts) {
      Slab slab = Slab.of(part.dtype(), 0, 1, part.cols(), part.segments().get(0), kernels);
      for (int i = 0; i < part.cols(); i++) {
        vector[at++] = slab.element(0, i);
      }
    }
    HostTensor first = parts.get(0);
    Slab slab;
    if (parts.size() == 1) {
      slab = Slab.of(first.dtype(), 0, 1, size, first.segments().get(0), kernels);
    } else {
      ByteBuffer bytes = ByteBuffer.allocateDirect(4 * size).order(ByteOrder.LITTLE_ENDIAN);
      bytes.asFloatBuffer().put(vector);
      slab = Slab.of(DType.F32, 0, 1, size, bytes, kernels);
    }
    return new CpuMatrix(first.name(), first.dtype(), 1, size, List.of(slab), vector);
  }

  /** A linear layer's, or an embedding's, weights. */
  static CpuMatrix of(Matrix matrix, String name) {
    if (!(matrix instanceof CpuMatrix cpu)) {
      throw new IllegalArgumentException(name + " is not a matrix of the CPU backend: " + matrix);
    }
    return cpu;
  }

  /** A vector's elements. */
  static float[] vector(Matrix matrix, int size, String name) {
    CpuMatrix cpu = of(matrix, name);
    cpu.slabs();
    if (cpu.vector == null || cpu.cols != size) {
      throw new IllegalArgumentException(
          name + " must be a vector of " + size + ", is [" + cpu.rows + ", " + cpu.cols + "]");
    }
    return cpu.vector;
  }

  List<Slab> slabs() {
    List<Slab> open = slabs;
    if (open == null) {
      throw new IllegalStateException("The matrix " + name + " is closed");
    }
    return open;
  }

  /** The slab that holds a row. */
  Slab slabOf(int row) {
    List<Slab> open = slabs();
    int low = 0;
    int high = open.size() - 1;
    while (low < high) {
      int middle = (low + high + 1) >>> 1;
      if (open.get(middle).firstRow() <= row) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return open.get(low);
  }

  @Override
  public int rows() {
    return rows;
  }

  @Override
  public DType type() {
    return type;
  }

  @Override
  public int cols() {
    return cols;
  }

  /** Lets go of the weights; a mapped file is unmapped when nothing else refers to it. */
  @Override
  public void close() {
    slabs = null;
    vector = null;
  }
}
