package dev.halcyon.engine.backend;

import dev.halcyon.engine.logits.DeviceBuffer;
import java.nio.FloatBuffer;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;

/** What tests need around a backend: filling and reading buffers with its own operations. */
public final class BackendHarness implements AutoCloseable {

  /** Exact in every type: 3 * 2^12. */
  public static final float POISON = 12288f;

  private final Backend backend;

  public BackendHarness(Backend backend) {
    this.backend = backend;
  }

  public Backend backend() {
    return backend;
  }

  /** Values of a normal distribution that activations are exact in. */
  public float[] random(int count, double deviation, Random random) {
    return TestTensors.random(backend.activationType(), count, deviation, random);
  }

  /** Rounds values, in place, to what activations are exact in. */
  public float[] rounded(float[] values) {
    for (int i = 0; i < values.length; i++) {
      values[i] = TestTensors.round(backend.activationType(), values[i]);
    }
    return values;
  }

  /** A buffer of [rows, cols], filled by embedding the rows of a table that holds the values. */
  public DeviceBuffer filled(int rows, int cols, float[] values) {
    DeviceBuffer buffer = backend.memory().allocate(backend.activationBytes(rows, cols), "a test");
    if (rows > 0) {
      // A vector and a table of one row look the same, so the table has a row more.
      float[] table = java.util.Arrays.copyOf(values, (rows + 1) * cols);
      HostTensor tensor = TestTensors.tensor(DType.F32, rows + 1, cols, table);
      try (Matrix matrix = backend.load(List.of(tensor))) {
        int[] ids = IntStream.range(0, rows).toArray();
        backend.embed(matrix, backend.upload(tokens(ids)), 1f, buffer);
      }
    }
    return buffer;
  }

  /** A buffer of rows that operations must overwrite, or leave alone. */
  public DeviceBuffer poisoned(int rows, int cols) {
    float[] values = new float[rows * cols];
    java.util.Arrays.fill(values, POISON);
    return filled(rows, cols, values);
  }

  /** A batch for operations that look at tokens alone: one sequence. */
  public static Batch tokens(int... ids) {
    int n = ids.length;
    return new Batch(
        n,
        ids,
        IntStream.range(0, n).toArray(),
        IntStream.range(0, n).toArray(),
        1,
        new int[] {0, n},
        new int[] {n},
        new int[][] {{0}});
  }

  public float[] read(DeviceBuffer buffer, int count) {
    float[] values = new float[count];
    backend.read(buffer, 0, count, values, 0);
    return values;
  }

  public Matrix vector(float[] values) {
    return backend.load(List.of(TestTensors.tensor(DType.F32, 1, values.length, values)));
  }

  /** The tables of the classic rotary embedding with base 10,000. */
  public RopeTable rope(int positions, int rotaryDim, RopeLayout layout) {
    int half = rotaryDim / 2;
    FloatBuffer cos = FloatBuffer.allocate(positions * half);
    FloatBuffer sin = FloatBuffer.allocate(positions * half);
    for (int p = 0; p < positions; p++) {
      for (int i = 0; i < half; i++) {
        double angle = p * DoubleReference.ropeFrequency(i, rotaryDim);
        cos.put(p * half + i, (float) Math.cos(angle));
        sin.put(p * half + i, (float) Math.sin(angle));
      }
    }
    return backend.loadRope(positions, rotaryDim, layout, cos, sin);
  }

  @Override
  public void close() {
    backend.close();
  }
}
