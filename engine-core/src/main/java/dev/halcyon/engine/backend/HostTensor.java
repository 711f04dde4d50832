package dev.halcyon.engine.backend;

import java.nio.ByteBuffer;
import java.util.List;

/**
 * A weight tensor as it lies in host memory, most often a mapped file, row-major and little-endian.
 *
 * <p>A tensor larger than one buffer is split at row borders: segment {@code i} holds rows {@code i
 * * rowsPerSegment} up to the next segment. A one-dimensional tensor is one row of {@code cols}
 * elements.
 *
 * @param name the checkpoint's name of the tensor, for messages
 * @param dtype the stored element type
 * @param rows the number of rows
 * @param cols the elements of a row
 * @param rowsPerSegment rows in every segment but the last
 * @param segments direct, little-endian buffers of whole rows, position 0 at their first row
 */
public record HostTensor(
    String name, DType dtype, int rows, int cols, int rowsPerSegment, List<ByteBuffer> segments) {

  public HostTensor {
    segments = List.copyOf(segments);
  }

  /**
   * Checks that the segments hold what the tensor says: backends read them by address.
   *
   * @throws IllegalArgumentException if they don't
   */
  public void requireComplete() {
    if (rows < 1 || cols < 1 || rowsPerSegment < 1) {
      throw new IllegalArgumentException(name + " has the shape [" + rows + ", " + cols + "]");
    }
    long left = rows;
    for (ByteBuffer segment : segments) {
      long count = Math.min(left, rowsPerSegment);
      if (!segment.isDirect() || segment.limit() < count * cols * dtype.bytes()) {
        throw new IllegalArgumentException(
            name + ": a segment of " + count + " rows must be a direct buffer of as many");
      }
      left -= count;
    }
    if (left != 0) {
      throw new IllegalArgumentException(name + ": segments lack " + left + " rows");
    }
  }

  /** The size of all rows in bytes. */
  public long bytes() {
    return (long) rows * cols * dtype.bytes();
  }
}
