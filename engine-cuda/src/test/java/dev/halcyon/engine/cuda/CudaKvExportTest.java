package dev.halcyon.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.DTypeChoice;
import dev.halcyon.engine.backend.AttentionSpec;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.DeviceBatch;
import dev.halcyon.engine.backend.HostTensor;
import dev.halcyon.engine.backend.KvShape;
import dev.halcyon.engine.backend.KvStorage;
import dev.halcyon.engine.backend.Matrix;
import dev.halcyon.engine.backend.StepLimits;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.ReadOnlyBufferException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Exports beside what the owner thread has queued, beyond the contract. */
@Tag("gpu")
@Timeout(120)
class CudaKvExportTest {

  private static final int HEADS = 2;
  private static final int DIM = 8;
  private static final int BLOCK = 4;
  private static final AttentionSpec SPEC = new AttentionSpec(2, HEADS, DIM, 0.3f, 0, 0);
  private static final KvShape SHAPE = new KvShape(2, 32, BLOCK, HEADS, DIM);
  private static final int TOKENS = 8;
  private static final int[] BLOCKS = {3, 1};
  private static final int[] OTHERS = {2, 0};

  private CudaBackend backend;
  private KvStorage kv;

  @BeforeEach
  void open() {
    backend =
        CudaBackend.open(
            new BackendOptions(2, 64 << 20, 1 << 20, 0, DTypeChoice.AUTO, DType.F32, true, true));
    kv = backend.allocateKv(SHAPE);
  }

  @AfterEach
  void close() {
    kv.close();
    backend.close();
    assertThat(backend.memory().used()).isZero();
    assertThat(backend.memory().overhead()).isZero();
  }

  /** Tokens of a layer, all bytes the same. */
  private static ByteBuffer bytes(int value) {
    byte[] bytes = new byte[TOKENS * 2 * HEADS * DIM * Float.BYTES];
    Arrays.fill(bytes, (byte) value);
    return ByteBuffer.wrap(bytes);
  }

  private void write(int layer, int[] blocks, int value) {
    kv.importTokens(layer, blocks, 0, TOKENS, bytes(value));
  }

  /** What another thread finds now. */
  private ByteBuffer export(int layer, int[] blocks) throws Exception {
    return CompletableFuture.supplyAsync(
            () -> {
              ByteBuffer to = ByteBuffer.allocate(bytes(0).capacity());
              kv.exportTokens(layer, blocks, 0, TOKENS, to);
              return to.flip();
            })
        .get(30, TimeUnit.SECONDS);
  }

  /** Completed once all that was called so far is written. */
  private CompletableFuture<Void> written() {
    CompletableFuture<Void> word = new CompletableFuture<>();
    kv.whenWritten(() -> word.complete(null));
    return word;
  }

  @Test
  void aLayerLeavesWhileWhatWasQueuedBehindItIsNotDone() throws Exception {
    write(0, BLOCKS, 1);
    kv.awaitWrites();
    assertThat(export(0, BLOCKS)).isEqualTo(bytes(1));

    write(0, BLOCKS, 2);
    CompletableFuture<Void> first = written();
    try (HeldStream held = new HeldStream(backend.context())) {
      write(1, BLOCKS, 3);
      CompletableFuture<Void> second = written();
      first.get(30, TimeUnit.SECONDS);
      for (int i = 0; i < 20; i++) {
        assertThat(export(0, BLOCKS)).isEqualTo(bytes(2));
      }
      assertThat(second).as("word of what is not written").isNotDone();
      held.release();
      second.get(30, TimeUnit.SECONDS);
      assertThat(export(1, BLOCKS)).isEqualTo(bytes(3));
    }
  }

  /** A pinned prompt, for one, while another one is computed. */
  @Test
  void whatWasWrittenLongAgoLeavesWhileTheDeviceIsBusy() throws Exception {
    write(0, BLOCKS, 1);
    write(0, OTHERS, 2);
    kv.awaitWrites();
    assertThat(export(0, BLOCKS)).isEqualTo(bytes(1));
    try (HeldStream held = new HeldStream(backend.context())) {
      write(0, OTHERS, 3);
      assertThat(export(0, BLOCKS)).isEqualTo(bytes(1));
      held.release();
      kv.awaitWrites();
      assertThat(export(0, OTHERS)).isEqualTo(bytes(3));
    }
  }

  /** Tables of block numbers that did not fit the memory for the one before. */
  @Test
  void sequencesOfMoreAndMoreBlocks() throws Exception {
    int most = 40_000;
    try (KvStorage large = backend.allocateKv(new KvShape(1, most, 1, 1, 2))) {
      for (int count : new int[] {10, 1000, most, 20}) {
        int[] blocks = IntStream.range(0, count).map(i -> most - 1 - i).toArray();
        ByteBuffer from = ByteBuffer.allocate(count * 2 * 2 * Float.BYTES);
        for (int i = 0; i < from.capacity() / Integer.BYTES; i++) {
          from.putInt(i * Integer.BYTES, i * 31 + count);
        }
        large.importTokens(0, blocks, 0, count, from.duplicate());
        large.awaitWrites();
        ByteBuffer to = ByteBuffer.allocate(from.capacity());
        large.exportTokens(0, blocks, 0, count, to);
        assertThat(to.flip().mismatch(from)).isEqualTo(-1);
      }
    }
  }

  @Test
  void aBufferThatCannotBeWrittenFailsItsExportAlone() throws Exception {
    write(0, BLOCKS, 1);
    kv.awaitWrites();
    ByteBuffer to = ByteBuffer.allocate(bytes(0).capacity());
    for (int i = 0; i < 3; i++) {
      assertThatThrownBy(() -> kv.exportTokens(0, BLOCKS, 0, TOKENS, to.asReadOnlyBuffer()))
          .isInstanceOf(ReadOnlyBufferException.class);
      assertThat(export(0, BLOCKS)).isEqualTo(bytes(1));
    }
  }

  @Test
  void closingTheBackendWaitsForExportsAndRefusesLaterOnes() throws Exception {
    write(0, BLOCKS, 1);
    kv.awaitWrites();
    CountDownLatch running = new CountDownLatch(4);
    List<CompletableFuture<Throwable>> readers = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      CompletableFuture<Throwable> end = new CompletableFuture<>();
      readers.add(end);
      new Thread(() -> end.complete(exportUntilItFails(running))).start();
    }
    assertThat(running.await(30, TimeUnit.SECONDS)).isTrue();
    backend.close();
    for (CompletableFuture<Throwable> reader : readers) {
      assertThat(reader.get(30, TimeUnit.SECONDS))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage("The CUDA backend is closed");
    }
  }

  private Throwable exportUntilItFails(CountDownLatch running) {
    ByteBuffer to = ByteBuffer.allocate(bytes(0).capacity());
    try {
      while (true) {
        kv.exportTokens(0, BLOCKS, 0, TOKENS, to.clear());
        if (!to.flip().equals(bytes(1))) {
          return new AssertionError("other bytes than were written");
        }
        running.countDown();
      }
    } catch (RuntimeException e) {
      return e;
    }
  }

  @Test
  void closingTheCacheWaitsForExportsAndRefusesLaterOnes() throws Exception {
    write(0, BLOCKS, 1);
    kv.awaitWrites();
    CountDownLatch running = new CountDownLatch(1);
    CompletableFuture<Throwable> reader =
        CompletableFuture.supplyAsync(() -> exportUntilItFails(running));
    assertThat(running.await(30, TimeUnit.SECONDS)).isTrue();
    kv.close();
    assertThat(reader.get(30, TimeUnit.SECONDS))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("the KV cache");
  }

  /**
   * Steps that write the cache and ask for word, of one row a sequence. What is called while a
   * graph is recorded does not run, so there is no word of it, nor of a repeated step; what that
   * wrote is there all the same once somebody waited for it.
   */
  @Test
  void recordedStepsHoldNoEventAndWhatTheyWriteIsExported() throws Exception {
    int vocab = 50;
    int cols = SPEC.packedCols();
    float[] values = new float[vocab * cols];
    for (int i = 0; i < values.length; i++) {
      values[i] = i;
    }
    ByteBuffer weights =
        ByteBuffer.allocateDirect(values.length * Float.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    weights.asFloatBuffer().put(values);
    StepLimits limits = new StepLimits(20, 12, 64);
    AtomicInteger bodies = new AtomicInteger();
    AtomicInteger words = new AtomicInteger();
    try (Matrix table =
            backend.load(
                List.of(new HostTensor("table", DType.F32, vocab, cols, vocab, List.of(weights))));
        CudaBuffer rows =
            backend.memory().allocate(backend.activationBytes(limits.rows(), cols), "rows")) {
      Consumer<DeviceBatch> body =
          batch -> {
            bodies.incrementAndGet();
            backend.embed(table, batch, 1, rows);
            for (int layer = 0; layer < SHAPE.layers(); layer++) {
              backend.ropeAndWriteKv(batch, rows, SPEC, null, kv, layer);
              kv.whenWritten(words::incrementAndGet);
            }
          };
      backend.warmUp(limits, batch -> backend.runStep(backend.upload(batch), body));
      written().get(30, TimeUnit.SECONDS);
      // 1, 2, 4, 8 and 12.
      assertThat(backend.graphs().size()).isEqualTo(5);
      assertThat(words).hasValue((bodies.get() - 5) * SHAPE.layers());

      int before = bodies.get();
      for (int round = 0; round < 20; round++) {
        int first = round;
        int[] tokens = IntStream.range(0, 12).map(i -> first + 2 * i).toArray();
        backend.runStep(backend.upload(heads(tokens)), body);
        CompletableFuture<Void> word = written();
        if (round % 2 == 0) {
          word.get(30, TimeUnit.SECONDS);
        } else {
          kv.awaitWrites();
        }
        for (int i = 0; i < tokens.length; i++) {
          requireRow(export(round % SHAPE.layers(), i), values, tokens[i]);
        }
      }
      assertThat(bodies).as("all steps were repeated").hasValue(before);
      assertThat(backend.graphs().replays()).isEqualTo(20);
      assertThat(words).hasValue((before - 5) * SHAPE.layers());
    }
  }

  /** The first tokens of sequences, each in a block of its own. */
  private static Batch heads(int[] tokens) {
    int count = tokens.length;
    return new Batch(
        count,
        tokens,
        new int[count],
        IntStream.range(0, count).map(i -> i * BLOCK).toArray(),
        count,
        IntStream.rangeClosed(0, count).toArray(),
        IntStream.generate(() -> 1).limit(count).toArray(),
        IntStream.range(0, count).mapToObj(i -> new int[] {i}).toArray(int[][]::new));
  }

  /** What another thread finds of a block's first token. */
  private ByteBuffer export(int layer, int block) throws Exception {
    return CompletableFuture.supplyAsync(
            () -> {
              ByteBuffer to = ByteBuffer.allocate(2 * HEADS * DIM * Float.BYTES);
              kv.exportTokens(layer, new int[] {block}, 0, 1, to);
              return to.flip().order(ByteOrder.LITTLE_ENDIAN);
            })
        .get(30, TimeUnit.SECONDS);
  }

  /** Keys and values lie behind a row's queries. */
  private static void requireRow(ByteBuffer got, float[] values, int token) {
    int begin = token * SPEC.packedCols() + SPEC.queryHeads() * DIM;
    float[] found = new float[2 * HEADS * DIM];
    got.asFloatBuffer().get(found);
    assertThat(found).isEqualTo(Arrays.copyOfRange(values, begin, begin + found.length));
  }
}
