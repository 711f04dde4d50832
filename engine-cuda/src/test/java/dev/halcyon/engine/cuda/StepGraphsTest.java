package dev.halcyon.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.DTypeChoice;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.DeviceBatch;
import dev.halcyon.engine.backend.HostTensor;
import dev.halcyon.engine.backend.Matrix;
import dev.halcyon.engine.backend.StepLimits;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Recorded steps against the same operations called one by one, bit for bit. */
@Tag("gpu")
class StepGraphsTest {

  private static final int VOCAB = 50;
  private static final int COLS = 64;
  private static final int INNER = 96;
  private static final int MOST = 12;

  /** 1, 2, 4, 8 and the most. */
  private static final int BUCKETS = 5;

  private static final StepLimits LIMITS = new StepLimits(20, MOST, 64);

  private final Random random = new Random(11);
  private CudaBackend backend;
  private Matrix table;
  private Matrix norm;
  private Matrix up;
  private Matrix down;
  private CudaBuffer hidden;
  private CudaBuffer wide;

  /** Called within each step, after its first operation. */
  private Runnable within = () -> {};

  private int bodies;

  /** The same object in every step. */
  private final Consumer<DeviceBatch> body = this::body;

  private void open(DType type, boolean graphs) {
    backend =
        CudaBackend.open(
            new BackendOptions(2, 64 << 20, 1 << 20, 0, DTypeChoice.AUTO, type, graphs, true));
    table = load("table", VOCAB, COLS);
    norm = load("norm", 1, COLS);
    up = load("up", INNER, COLS);
    down = load("down", COLS, INNER);
    hidden = backend.memory().allocate(backend.activationBytes(LIMITS.rows(), COLS), "hidden");
    wide = backend.memory().allocate(backend.activationBytes(LIMITS.rows(), INNER), "wide");
  }

  private Matrix load(String name, int rows, int cols) {
    ByteBuffer bytes =
        ByteBuffer.allocateDirect(rows * cols * Float.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    for (int i = 0; i < rows * cols; i++) {
      bytes.putFloat(i * Float.BYTES, (float) random.nextGaussian());
    }
    return backend.load(List.of(new HostTensor(name, DType.F32, rows, cols, rows, List.of(bytes))));
  }

  @AfterEach
  void closeBackend() {
    if (backend != null) {
      hidden.close();
      wide.close();
      List.of(table, norm, up, down).forEach(Matrix::close);
      backend.close();
      assertThat(backend.memory().used()).isZero();
      assertThat(backend.memory().overhead()).isZero();
    }
  }

  private void body(DeviceBatch batch) {
    bodies++;
    int rows = batch.batch().rows();
    backend.embed(table, batch, 1, hidden);
    within.run();
    backend.rmsNorm(hidden, norm, 0, 1e-5f, rows, hidden);
    backend.linear(hidden, rows, up, null, wide);
    backend.linear(wide, rows, down, null, hidden);
  }

  /** A step with one row a sequence; returns its hidden rows. */
  private float[] step(int rows, long seed) {
    int[] tokens = new Random(seed).ints(rows, 0, VOCAB).toArray();
    return run(
        new Batch(
            rows,
            tokens,
            new int[rows],
            new int[rows],
            rows,
            IntStream.rangeClosed(0, rows).toArray(),
            IntStream.generate(() -> 1).limit(rows).toArray(),
            new int[rows][1]));
  }

  private float[] run(Batch batch) {
    // What was there must not pass for a result.
    float[] poison = new float[LIMITS.rows() * COLS * backend.activationType().bytes() / 4];
    Arrays.fill(poison, Float.NaN);
    backend.write(poison, 0, poison.length, hidden, 0);
    backend.runStep(backend.upload(batch), body);
    float[] got = new float[batch.rows() * COLS];
    backend.read(hidden, 0, got.length, got, 0);
    return got;
  }

  private void warmUp() {
    backend.warmUp(LIMITS, batch -> backend.runStep(backend.upload(batch), body));
    backend.synchronize();
  }

  /** Weights are float32: with other activations linear layers need scratch of their own. */
  @ParameterizedTest
  @EnumSource(DType.class)
  void recordedStepsGiveTheSameBitsForEveryNumberOfRows(DType type) {
    open(type, false);
    warmUp();
    assertThat(backend.graphs().size()).isZero();
    float[][] expected = new float[2 * MOST][];
    for (int i = 0; i < expected.length; i++) {
      expected[i] = step(i % MOST + 1, i);
    }
    backend.runStep(backend.upload(chunk(3)), body);
    closeBackend();

    random.setSeed(11);
    open(type, true);
    warmUp();
    assertThat(backend.graphs().size()).isEqualTo(BUCKETS);
    int before = bodies;
    for (int i = 0; i < expected.length; i++) {
      assertThat(step(i % MOST + 1, i)).as("step %d", i).isEqualTo(expected[i]);
    }
    assertThat(bodies).as("no operation was called").isEqualTo(before);
    assertThat(backend.graphs().replays()).isEqualTo(expected.length);
  }

  /** One sequence of several rows. */
  private static Batch chunk(int rows) {
    return new Batch(
        rows,
        new int[rows],
        IntStream.range(0, rows).toArray(),
        IntStream.range(0, rows).toArray(),
        1,
        new int[] {0, rows},
        new int[] {rows},
        new int[1][(rows + 3) / 4]);
  }

  @Test
  void chunksAndBatchesPastTheLimitsRunOperationByOperation() {
    open(DType.F32, true);
    warmUp();
    int before = bodies;
    float[] small = step(3, 5);
    assertThat(bodies).isEqualTo(before);
    run(chunk(3));
    assertThat(bodies).isEqualTo(before + 1);
    step(MOST + 1, 5);
    assertThat(bodies).isEqualTo(before + 2);
    // Neither moved what the recorded steps read.
    assertThat(step(3, 5)).isEqualTo(small);
    assertThat(bodies).isEqualTo(before + 2);
    assertThat(backend.graphs().size()).isEqualTo(BUCKETS);
  }

  @Test
  void whatARecordedStepMayUseIsNotUsedOnceItIsFreed() {
    open(DType.F32, true);
    CudaBuffer scratch = backend.memory().allocateOwn(4096, "an operation");
    warmUp();
    float[] expected = step(5, 1);
    int before = bodies;
    scratch.close();
    assertThat(step(5, 1)).isEqualTo(expected);
    assertThat(bodies).as("once to compute, once to record").isEqualTo(before + 2);
    assertThat(backend.graphs().size()).isEqualTo(1);
    assertThat(step(5, 1)).isEqualTo(expected);
    assertThat(bodies).isEqualTo(before + 2);
    // What came later belongs to no graph.
    backend.memory().allocateOwn(4096, "another").close();
    step(6, 1);
    assertThat(bodies).isEqualTo(before + 2);
  }

  @Test
  void anotherLimitMovesTheArraysAndStepsAreRecordedAgain() {
    open(DType.F32, true);
    warmUp();
    float[] expected = step(5, 1);
    // More sequences than arrays of the first size have room for.
    StepLimits more = new StepLimits(LIMITS.rows(), LIMITS.rows(), 64);
    backend.warmUp(more, batch -> backend.runStep(backend.upload(batch), body));
    // 1, 2, 4, 8, 16 and 20.
    assertThat(backend.graphs().size()).isEqualTo(6);
    int before = bodies;
    assertThat(step(5, 1)).isEqualTo(expected);
    step(17, 2);
    assertThat(bodies).isEqualTo(before);
  }

  @Test
  void anotherBodyIsNotTakenForTheOneThatWasRecorded() {
    open(DType.F32, true);
    warmUp();
    float[] expected = step(5, 1);
    int[] others = {0};
    Consumer<DeviceBatch> other =
        batch -> {
          others[0]++;
          backend.embed(table, batch, 2, hidden);
        };
    backend.runStep(backend.upload(chunk(1)), other);
    assertThat(others[0]).isEqualTo(2);
    assertThat(step(5, 1)).isEqualTo(expected);
  }

  @Test
  void aStepThatAllocatesRunsWithoutAGraphAndHoldsNothing() {
    open(DType.F32, true);
    warmUp();
    float[] expected = step(5, 1);
    long used = backend.memory().used();
    closeBackend();

    random.setSeed(11);
    open(DType.F32, true);
    within = () -> backend.memory().allocate(1 << 16, "a greedy operation").close();
    warmUp();
    assertThat(backend.graphs().size()).isZero();
    int before = bodies;
    assertThat(step(5, 1)).isEqualTo(expected);
    assertThat(step(5, 1)).isEqualTo(expected);
    assertThat(bodies).as("recording is not tried again").isEqualTo(before + 2);
    assertThat(backend.memory().used()).isEqualTo(used);
  }

  @Test
  void aStepThatWaitsForTheDeviceRunsWithoutAGraph() {
    open(DType.F32, true);
    within = backend::synchronize;
    warmUp();
    assertThat(backend.graphs().size()).isZero();
    within = () -> {};
    float[] got = step(5, 1);
    assertThat(step(5, 1)).isEqualTo(got).doesNotContain(Float.NaN);
  }

  /** Results are closed by callers' threads at any time, while a step is recorded too. */
  @Test
  void othersFreeMemoryWhileAStepIsRecorded() throws InterruptedException {
    open(DType.F32, true);
    long used = backend.memory().used();
    Thread[] closers = new Thread[40];
    int[] started = {0};
    within =
        () -> {
          if (started[0] < closers.length && closers[started[0]] != null) {
            closers[started[0]++].start();
          }
        };
    for (int i = 0; i < closers.length; i++) {
      CudaBuffer result = backend.memory().allocate(1 << 16, "a result");
      closers[i] = new Thread(result::close);
    }
    warmUp();
    assertThat(backend.graphs().size()).isEqualTo(BUCKETS);
    assertThat(started[0]).isGreaterThan(2 * BUCKETS);
    float[] first = step(7, 3);
    assertThat(step(7, 3)).isEqualTo(first);
    for (int i = started[0]; i < closers.length; i++) {
      closers[i].start();
    }
    for (Thread closer : closers) {
      closer.join();
    }
    assertThat(backend.memory().used()).isEqualTo(used);
  }
}
