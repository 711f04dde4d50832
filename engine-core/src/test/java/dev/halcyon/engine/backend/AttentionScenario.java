package dev.halcyon.engine.backend;

import dev.halcyon.engine.logits.DeviceBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;

/**
 * Sequences of random queries, keys and values, run through a backend's rope, KV cache and
 * attention in steps of any cut, several sequences together, their blocks scattered over the cache.
 */
public final class AttentionScenario {

  private final BackendHarness harness;
  private final AttentionSpec spec;
  private final int rotaryDim;
  private final RopeLayout layout;
  private final KvShape shape;
  private final int[] lengths;
  private final float[][] packed;
  private final int[][] tables;
  private final int layer;

  /**
   * @param rotaryDim 0 for no rotary embedding
   * @param lengths tokens of each sequence
   */
  public AttentionScenario(
      BackendHarness harness,
      AttentionSpec spec,
      int rotaryDim,
      RopeLayout layout,
      int blockSize,
      int[] lengths,
      long seed) {
    this.harness = harness;
    this.spec = spec;
    this.rotaryDim = rotaryDim;
    this.layout = layout;
    this.lengths = lengths;
    Random random = new Random(seed);
    int blocks = Arrays.stream(lengths).map(n -> (n + blockSize - 1) / blockSize).sum() + 3;
    this.shape = new KvShape(2, blocks, blockSize, spec.kvHeads(), spec.headDim());
    this.layer = random.nextInt(2);
    List<Integer> free = new ArrayList<>();
    for (int i = 0; i < blocks; i++) {
      free.add(i);
    }
    Collections.shuffle(free, random);
    tables = new int[lengths.length][];
    packed = new float[lengths.length][];
    for (int s = 0; s < lengths.length; s++) {
      tables[s] = new int[(lengths[s] + blockSize - 1) / blockSize];
      for (int i = 0; i < tables[s].length; i++) {
        tables[s][i] = free.remove(free.size() - 1);
      }
      // A sequence's own, whatever the others are.
      Random own = new Random(seed * 31 + s);
      packed[s] = harness.random(lengths[s] * spec.packedCols(), 1, own);
    }
  }

  /**
   * Runs all tokens.
   *
   * @param chunks the tokens that each sequence takes in step i; the last number repeats
   * @return attention's output by sequence, [length, queryHeads * headDim]
   */
  public float[][] run(int... chunks) {
    int cols = spec.queryHeads() * spec.headDim();
    float[][] out = new float[lengths.length][];
    for (int s = 0; s < lengths.length; s++) {
      out[s] = new float[lengths[s] * cols];
    }
    int[] done = new int[lengths.length];
    try (KvStorage kv = harness.backend().allocateKv(shape);
        RopeTable rope = rotaryDim == 0 ? null : harness.rope(max(lengths), rotaryDim, layout)) {
      poison(kv);
      for (int step = 0; !Arrays.equals(done, lengths); step++) {
        int chunk = chunks[Math.min(step, chunks.length - 1)];
        step(counts(chunk, done), 0, done, kv, rope, out);
      }
    }
    return out;
  }

  /**
   * Runs the last tokens of all sequences one by one, in steps with sequences of padding, after all
   * that come before in one step.
   *
   * @param singles at most as many as the shortest sequence has
   * @return as {@link #run}
   */
  public float[][] runSingly(int singles) {
    float[][] out = new float[lengths.length][];
    for (int s = 0; s < lengths.length; s++) {
      out[s] = new float[lengths[s] * spec.queryHeads() * spec.headDim()];
    }
    int[] done = new int[lengths.length];
    try (KvStorage kv = harness.backend().allocateKv(shape);
        RopeTable rope = rotaryDim == 0 ? null : harness.rope(max(lengths), rotaryDim, layout)) {
      poison(kv);
      step(Arrays.stream(lengths).map(n -> n - singles).toArray(), 0, done, kv, rope, out);
      for (int i = 0; i < singles; i++) {
        step(counts(1, done), 2, done, kv, rope, out);
      }
    }
    return out;
  }

  /** What each sequence takes of the next step. */
  private int[] counts(int chunk, int[] done) {
    return IntStream.range(0, lengths.length)
        .map(s -> Math.min(chunk, lengths[s] - done[s]))
        .toArray();
  }

  /** Fills the whole cache with NaN: what no row sees must not get into any result. */
  private void poison(KvStorage kv) {
    float[] qkv = new float[shape.blockSize() * spec.packedCols()];
    Arrays.fill(qkv, Float.NaN);
    int[] positions = IntStream.range(0, shape.blockSize()).toArray();
    try (DeviceBuffer x = harness.filled(shape.blockSize(), spec.packedCols(), qkv)) {
      for (int b = 0; b < shape.blocks(); b++) {
        int first = b * shape.blockSize();
        Batch block =
            new Batch(
                shape.blockSize(),
                new int[shape.blockSize()],
                positions,
                IntStream.range(first, first + shape.blockSize()).toArray(),
                1,
                new int[] {0, shape.blockSize()},
                new int[] {shape.blockSize()},
                new int[][] {{b}});
        DeviceBatch batch = harness.backend().upload(block);
        harness.backend().ropeAndWriteKv(batch, x, spec, null, kv, layer);
      }
    }
  }

  private void step(
      int[] counts, int padding, int[] done, KvStorage kv, RopeTable rope, float[][] out) {
    int[] which = IntStream.range(0, counts.length).filter(s -> counts[s] > 0).toArray();
    int sequences = which.length + padding;
    int rows = Arrays.stream(counts).sum() + padding;
    // Arrays longer than what is used are allowed, with anything in the rest.
    int[] positions = filled(rows + 2);
    int[] slots = filled(rows + 2);
    int[] rowStart = filled(sequences + 2);
    int[] context = filled(sequences + 1);
    int[][] blockTables = new int[sequences + 1][];
    float[] qkv = new float[rows * spec.packedCols()];
    int row = 0;
    for (int i = 0; i < which.length; i++) {
      int s = which[i];
      int count = counts[s];
      rowStart[i] = row;
      context[i] = done[s] + count;
      int used = (context[i] + shape.blockSize() - 1) / shape.blockSize();
      blockTables[i] = Arrays.copyOf(tables[s], used);
      System.arraycopy(
          packed[s],
          done[s] * spec.packedCols(),
          qkv,
          row * spec.packedCols(),
          count * spec.packedCols());
      for (int p = done[s]; p < context[i]; p++) {
        positions[row] = p;
        slots[row++] = tables[s][p / shape.blockSize()] * shape.blockSize() + p % shape.blockSize();
      }
    }
    for (int i = which.length; i < sequences; i++) {
      rowStart[i] = row;
      context[i] = 0;
      blockTables[i] = new int[0];
      positions[row] = 0;
      slots[row] = -1;
      Arrays.fill(
          qkv, row * spec.packedCols(), (row + 1) * spec.packedCols(), Float.POSITIVE_INFINITY);
      row++;
    }
    rowStart[sequences] = rows;
    Backend backend = harness.backend();
    int cols = spec.queryHeads() * spec.headDim();
    try (DeviceBuffer x = harness.filled(rows, spec.packedCols(), qkv);
        DeviceBuffer y = harness.poisoned(rows + 1, cols)) {
      // After the buffers, which are filled through batches of their own.
      DeviceBatch batch =
          backend.upload(
              new Batch(
                  rows,
                  new int[rows],
                  positions,
                  slots,
                  sequences,
                  rowStart,
                  context,
                  blockTables));
      backend.ropeAndWriteKv(batch, x, spec, rope, kv, layer);
      backend.attention(batch, x, spec, kv, layer, y);
      float[] result = harness.read(y, (rows + 1) * cols);
      for (int i = 0; i < which.length; i++) {
        int s = which[i];
        int count = counts[s];
        System.arraycopy(result, rowStart[i] * cols, out[s], done[s] * cols, count * cols);
        done[s] += count;
      }
      for (int i = (rows - padding) * cols; i < rows * cols; i++) {
        if (result[i] != 0) {
          throw new AssertionError("attention gave " + result[i] + " for a row of padding");
        }
      }
      for (int i = rows * cols; i < result.length; i++) {
        if (result[i] != BackendHarness.POISON) {
          throw new AssertionError("attention wrote past its rows");
        }
      }
    }
  }

  private static int[] filled(int size) {
    int[] array = new int[size];
    Arrays.fill(array, -7);
    return array;
  }

  private static int max(int[] values) {
    return Arrays.stream(values).max().orElseThrow();
  }

  /** The same in double precision. */
  public double[][] reference() {
    return reference(max(lengths));
  }

  /**
   * The same for the last rows of each sequence alone, as far as there are so many; zeros for the
   * rest.
   */
  public double[][] reference(int last) {
    int dim = spec.headDim();
    int group = spec.queryHeads() / spec.kvHeads();
    double[][] out = new double[lengths.length][];
    for (int s = 0; s < lengths.length; s++) {
      out[s] = new double[lengths[s] * spec.queryHeads() * dim];
      for (int h = 0; h < spec.queryHeads(); h++) {
        double[][] keys = heads(s, spec.queryHeads() + h / group, true);
        double[][] values = heads(s, spec.queryHeads() + spec.kvHeads() + h / group, false);
        double[][] queries = heads(s, h, true);
        for (int p = Math.max(0, lengths[s] - last); p < lengths[s]; p++) {
          double[] y = DoubleReference.attention(queries[p], keys, values, p, spec);
          System.arraycopy(y, 0, out[s], (p * spec.queryHeads() + h) * dim, dim);
        }
      }
    }
    return out;
  }

  /** One head of a sequence's packed rows, by position. */
  private double[][] heads(int s, int head, boolean rotated) {
    int dim = spec.headDim();
    double[][] result = new double[lengths[s]][dim];
    for (int p = 0; p < lengths[s]; p++) {
      for (int d = 0; d < dim; d++) {
        result[p][d] = packed[s][p * spec.packedCols() + head * dim + d];
      }
      if (rotated && rotaryDim > 0) {
        DoubleReference.rope(result[p], rotaryDim, layout, p);
      }
    }
    return result;
  }
}
