package dev.halcyon.engine.backend;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Weights for tests, in any stored type, with the values that they really hold after rounding. */
public final class TestTensors {

  private TestTensors() {}

  /** Values of a normal distribution, rounded to the type: each is exact in it. */
  public static float[] random(DType type, int count, double deviation, Random random) {
    float[] values = new float[count];
    for (int i = 0; i < count; i++) {
      values[i] = round(type, (float) (random.nextGaussian() * deviation));
    }
    return values;
  }

  /** A tensor in one segment. */
  public static HostTensor tensor(DType type, int rows, int cols, float[] values) {
    return tensor(type, rows, cols, values, rows);
  }

  /**
   * A tensor in segments, each at an address that is a multiple of its element size and no more.
   */
  public static HostTensor tensor(
      DType type, int rows, int cols, float[] values, int rowsPerSegment) {
    List<ByteBuffer> segments = new ArrayList<>();
    for (int first = 0; first < rows; first += rowsPerSegment) {
      int count = Math.min(rowsPerSegment, rows - first);
      ByteBuffer bytes = ByteBuffer.allocateDirect((count * cols + 1) * type.bytes());
      bytes = bytes.position(type.bytes()).slice().order(ByteOrder.LITTLE_ENDIAN);
      for (int i = 0; i < count * cols; i++) {
        float value = values[first * cols + i];
        switch (type) {
          case F32 -> bytes.putFloat(4 * i, value);
          case BF16 -> bytes.putShort(2 * i, (short) (Float.floatToRawIntBits(value) >>> 16));
          case F16 -> bytes.putShort(2 * i, toHalf(value));
        }
      }
      segments.add(bytes);
    }
    return new HostTensor("test.weight", type, rows, cols, rowsPerSegment, segments);
  }

  /** A value as the type holds it, cut off towards zero. */
  public static float round(DType type, float value) {
    return switch (type) {
      case F32 -> value;
      case BF16 -> Float.intBitsToFloat(Float.floatToRawIntBits(value) & 0xffff0000);
      case F16 -> fromHalf(toHalf(value));
    };
  }

  /**
   * The half-precision number at or next below a float in magnitude; floats must be below 65536.
   */
  private static short toHalf(float value) {
    double magnitude = Math.abs((double) value);
    int sign = Float.floatToRawIntBits(value) >>> 16 & 0x8000;
    if (magnitude < 0x1p-14) {
      return (short) (sign | (int) (magnitude * 0x1p24));
    }
    int exponent = Math.getExponent(magnitude);
    int mantissa = (int) ((magnitude / Math.scalb(1.0, exponent) - 1) * 1024);
    return (short) (sign | (exponent + 15) << 10 | mantissa);
  }

  /** A half-precision number by its definition. */
  public static float fromHalf(short bits) {
    int exponent = bits >> 10 & 31;
    int mantissa = bits & 1023;
    double magnitude;
    if (exponent == 31) {
      magnitude = mantissa == 0 ? Double.POSITIVE_INFINITY : Double.NaN;
    } else if (exponent == 0) {
      magnitude = mantissa * 0x1p-24;
    } else {
      magnitude = Math.scalb(1 + mantissa / 1024.0, exponent - 15);
    }
    return (float) (bits < 0 ? -magnitude : magnitude);
  }
}
