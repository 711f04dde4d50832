package dev.halcyon.engine.disagg.codec;

import dev.halcyon.engine.LogitsView;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * Logits as they travel: elements of one type, row-major and little-endian, kept bit for bit.
 * Immutable. The last dimension is the vocabulary; all before it together number the rows.
 */
public final class LogitsTensor {

  /** Most dimensions: [samples, rows, vocabulary]. */
  static final int MAX_RANK = 3;

  private final WireType type;
  private final int[] shape;
  private final byte[] data;

  private LogitsTensor(WireType type, int[] shape, byte[] data) {
    this.type = type;
    this.shape = shape;
    this.data = data;
  }

  /**
   * Logits of raw bytes.
   *
   * @param shape 2 or 3 positive sizes
   * @param data the elements, little-endian; copied
   * @throws IllegalArgumentException if the bytes are not what the shape says
   */
  public static LogitsTensor of(WireType type, int[] shape, byte[] data) {
    return owning(type, shape.clone(), data.clone());
  }

  /** Takes over its arguments. */
  static LogitsTensor owning(WireType type, int[] shape, byte[] data) {
    if (shape.length < 2 || shape.length > MAX_RANK) {
      throw new IllegalArgumentException(
          "shape must have 2 or 3 dimensions, got " + Arrays.toString(shape));
    }
    for (int size : shape) {
      if (size < 1) {
        throw new IllegalArgumentException(
            "shape must have positive sizes, got " + Arrays.toString(shape));
      }
    }
    if (bytes(type, shape) != data.length) {
      throw new IllegalArgumentException(
          String.format(
              "data must be %d bytes for shape %s of %s, got %d",
              bytes(type, shape), Arrays.toString(shape), type.wireName(), data.length));
    }
    return new LogitsTensor(type, shape, data);
  }

  /**
   * The rows of a view, float32 [rows, vocabulary]; the view stays open and the caller's.
   *
   * @throws IllegalArgumentException if it has no rows, or more than one array can hold
   * @throws IllegalStateException if it is closed
   */
  public static LogitsTensor of(LogitsView view) {
    return of(view, WireType.FLOAT32);
  }

  /**
   * The rows of a view, [rows, vocabulary], rounded to a type; the view stays open and the
   * caller's.
   *
   * @throws IllegalArgumentException if it has no rows, or more than one array can hold
   * @throws IllegalStateException if it is closed
   */
  public static LogitsTensor of(LogitsView view, WireType type) {
    int rows = view.rows();
    int vocabSize = view.vocabSize();
    if (rows == 0) {
      throw new IllegalArgumentException("a view without rows has no form on the wire");
    }
    long bytes = bytes(type, new int[] {rows, vocabSize});
    if (bytes > Integer.MAX_VALUE - 64) {
      throw new IllegalArgumentException(
          String.format(
              "logits of %d bytes exceed what one payload can hold (2 GiB); ask for logprobs, or"
                  + " send fewer rows",
              bytes));
    }
    byte[] data = new byte[(int) bytes];
    ByteBuffer to = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
    float[] row = new float[vocabSize];
    for (int i = 0; i < rows; i++) {
      view.copyRow(i, row);
      for (int j = 0; j < vocabSize; j++) {
        type.write(row[j], to);
      }
    }
    return new LogitsTensor(type, new int[] {rows, vocabSize}, data);
  }

  /** The bytes of a shape, or Long.MAX_VALUE if that is too many to count. */
  static long bytes(WireType type, int[] shape) {
    long bytes = type.bytes();
    for (int size : shape) {
      bytes = bytes > Long.MAX_VALUE / size ? Long.MAX_VALUE : bytes * size;
    }
    return bytes;
  }

  public WireType type() {
    return type;
  }

  /** The sizes, a copy. */
  public int[] shape() {
    return shape.clone();
  }

  /** The size of the last dimension. */
  public int vocabSize() {
    return shape[shape.length - 1];
  }

  /** The rows of vocabSize elements, of all samples together. */
  public int rows() {
    return data.length / type.bytes() / vocabSize();
  }

  /** The elements, read-only and little-endian. */
  public ByteBuffer data() {
    return ByteBuffer.wrap(data).asReadOnlyBuffer().order(ByteOrder.LITTLE_ENDIAN);
  }

  /** The bytes themselves, for the encoders. */
  byte[] raw() {
    return data;
  }

  /** The rows of all samples, widened to float32 when they are read. */
  public LogitsView view() {
    return new TensorView(this);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof LogitsTensor tensor
        && tensor.type == type
        && Arrays.equals(tensor.shape, shape)
        && Arrays.equals(tensor.data, data);
  }

  @Override
  public int hashCode() {
    return 31 * (31 * type.hashCode() + Arrays.hashCode(shape)) + Arrays.hashCode(data);
  }

  @Override
  public String toString() {
    return type.wireName() + Arrays.toString(shape);
  }
}
