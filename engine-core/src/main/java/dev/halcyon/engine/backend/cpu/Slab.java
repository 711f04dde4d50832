package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.HalfFloats;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A run of a matrix's rows that lies in one buffer, in its stored type.
 *
 * @param dtype the stored type
 * @param firstRow the matrix row that is row 0 here
 * @param rows the number of rows
 * @param cols the elements of a row
 * @param bytes the rows, little-endian, dense from index 0
 * @param view the same memory as the kernels load vectors from it
 */
record Slab(DType dtype, int firstRow, int rows, int cols, ByteBuffer bytes, Object view) {

  static Slab of(
      DType dtype, int firstRow, int rows, int cols, ByteBuffer segment, Kernels kernels) {
    ByteBuffer bytes = segment.duplicate().position(0);
    bytes = bytes.limit(Math.multiplyExact(Math.multiplyExact(rows, cols), dtype.bytes()));
    bytes = bytes.slice().order(ByteOrder.LITTLE_ENDIAN);
    return new Slab(dtype, firstRow, rows, cols, bytes, kernels.view(bytes));
  }

  /** Where a row of this slab begins, in bytes. */
  long rowOffset(int row) {
    return (long) row * cols * dtype.bytes();
  }

  /** One element as float32. */
  float element(int row, int col) {
    long index = rowOffset(row) + (long) col * dtype.bytes();
    return switch (dtype) {
      case F32 -> bytes.getFloat((int) index);
      case BF16 -> HalfFloats.bf16(bytes.getShort((int) index));
      case F16 -> HalfFloats.f16(bytes.getShort((int) index));
    };
  }

  /** Widens a row to float32. */
  void widenRow(int row, Kernels kernels, Scratch scratch, float[] to) {
    int at = (int) rowOffset(row);
    if (dtype == DType.F32) {
      bytes.slice(at, cols * 4).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(to, 0, cols);
      return;
    }
    short[] halves = scratch.shorts(cols);
    bytes.slice(at, cols * 2).order(ByteOrder.LITTLE_ENDIAN).asShortBuffer().get(halves, 0, cols);
    kernels.widen(dtype, halves, cols, to);
  }
}
