package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.Matrix;

/**
 * Weights on the device, dense rows, in the type of activations where they are stored in it, else
 * as float32, which every stored type is exact in.
 */
final class CudaMatrix implements Matrix {

  private final String name;
  private final DType stored;
  private final DType resident;
  private final int rows;
  private final int cols;
  private final CudaBuffer buffer;

  CudaMatrix(String name, DType stored, DType resident, int rows, int cols, CudaBuffer buffer) {
    this.name = name;
    this.stored = stored;
    this.resident = resident;
    this.rows = rows;
    this.cols = cols;
    this.buffer = buffer;
  }

  /** A linear layer's, or an embedding's, weights. */
  static CudaMatrix of(Matrix matrix, String name) {
    if (!(matrix instanceof CudaMatrix cuda)) {
      throw new IllegalArgumentException(name + " is not a matrix of the CUDA backend: " + matrix);
    }
    return cuda;
  }

  /** A norm's weights, or a bias. */
  static CudaMatrix vector(Matrix matrix, int size, String name) {
    CudaMatrix cuda = of(matrix, name);
    if (cuda.rows != 1 || cuda.cols != size) {
      throw new IllegalArgumentException(
          name + " must be a vector of " + size + ", is [" + cuda.rows + ", " + cuda.cols + "]");
    }
    return cuda;
  }

  /** Some of the rows, in the same memory: not to be closed. */
  CudaMatrix part(int firstRow, int count) {
    if (firstRow < 0 || count < 1 || count > rows - firstRow) {
      throw new IllegalArgumentException(
          count + " rows from row " + firstRow + " are not all in " + this);
    }
    long rowBytes = (long) cols * resident.bytes();
    CudaBuffer part = buffer.slice(firstRow * rowBytes, count * rowBytes);
    return new CudaMatrix(name, stored, resident, count, cols, part);
  }

  /** Where the elements are. */
  long address() {
    return buffer.address();
  }

  /** The type that elements have on the device. */
  DType resident() {
    return resident;
  }

  /** The type that the elements were stored in; where parts differ, that of the first. */
  public DType type() {
    return stored;
  }

  @Override
  public int rows() {
    return rows;
  }

  @Override
  public int cols() {
    return cols;
  }

  @Override
  public void close() {
    buffer.close();
  }

  @Override
  public String toString() {
    return "CudaMatrix[" + name + ", " + resident + ", " + rows + " x " + cols + "]";
  }
}
