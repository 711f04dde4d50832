package dev.halcyon.engine.backend;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assumptions.assumeThat;

import dev.halcyon.engine.logits.DeviceBuffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * What every backend whose KV cache can be handed over must do: tokens leave and come as [keys or
 * values, token, head, headDim], whatever the layout of the cache. A backend's test extends this.
 */
public abstract class KvTransferContractTest {

  private static final int LAYERS = 3;
  private static final int HEADS = 2;
  private static final int DIM = 8;
  private static final int TOKENS = 21;
  private static final AttentionSpec SPEC = new AttentionSpec(2, HEADS, DIM, 0.3f, 0, 0);

  private BackendHarness harness;
  private Backend backend;

  /** Opens the backend under test. */
  protected abstract Backend open(BackendOptions options);

  @BeforeEach
  void openBackend() {
    backend = open(new BackendOptions(1, 32L << 20, 1L << 20, 0));
    harness = new BackendHarness(backend);
  }

  @AfterEach
  void closeBackend() {
    assertThat(backend.memory().used()).as("leaked device memory").isZero();
    backend.close();
  }

  /**
   * An integer below 256, so exact in every type; different for neighbours in every direction.
   *
   * @param kind 0 for keys, 1 for values
   */
  private static float expected(int layer, int kind, int token, int head, int d) {
    return (layer * 83 + kind * 41 + token * 7 + head * 101 + d * 29) % 251;
  }

  @ParameterizedTest
  @CsvSource({"1", "4", "16", "32"})
  void tokensLeaveInTheOrderOfTheWire(int blockSize) {
    int[] blocks = scattered(blockSize);
    try (KvStorage kv = written(blockSize, blocks)) {
      assertThat(kv.transferable()).isTrue();
      for (int layer = 0; layer < LAYERS; layer++) {
        for (int[] range : new int[][] {{0, TOKENS}, {0, 1}, {TOKENS - 1, 1}, {3, 14}, {16, 5}}) {
          requireWire(exported(kv, layer, blocks, range[0], range[1]), layer, range[0], range[1]);
        }
      }
    }
  }

  @ParameterizedTest
  @CsvSource({"4,16", "16,4", "1,32", "16,16", "32,1"})
  void tokensComeIntoBlocksOfAnotherSize(int from, int to) {
    int[] source = scattered(from);
    int[] target = scattered(to);
    try (KvStorage a = written(from, source);
        KvStorage b = backend.allocateKv(shape(to))) {
      // The last layer first, and pieces that end within blocks.
      for (int layer = LAYERS - 1; layer >= 0; layer--) {
        for (int[] range : new int[][] {{13, 8}, {0, 5}, {5, 8}}) {
          b.importTokens(
              layer, target, range[0], range[1], exported(a, layer, source, range[0], range[1]));
        }
      }
      for (int layer = 0; layer < LAYERS; layer++) {
        requireWire(exported(b, layer, target, 0, TOKENS), layer, 0, TOKENS);
      }
      assertThat(attention(b, to, target)).isEqualTo(attention(a, from, source));
    }
  }

  /**
   * Heads of all alignments, and more bytes than a backend is likely to copy at once. Every byte is
   * below 64, so that no element is a NaN, whatever its type.
   */
  @ParameterizedTest
  @CsvSource({"3, 80, 2011", "1, 6, 1201", "2, 2, 40", "5, 128, 700", "1, 256, 1", "3, 4, 500"})
  void manyTokensOfAllSizesOfHeads(int heads, int dim, int tokens) {
    int[] small = reversed((tokens + 3) / 4);
    int[] large = reversed((tokens + 63) / 64);
    byte[] bytes = new byte[tokens * 2 * heads * dim * backend.activationType().bytes()];
    Random random = new Random(tokens);
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) random.nextInt(64);
    }
    try (KvStorage a = backend.allocateKv(new KvShape(1, small.length, 4, heads, dim));
        KvStorage b = backend.allocateKv(new KvShape(2, large.length, 64, heads, dim))) {
      a.importTokens(0, small, 0, tokens, ByteBuffer.wrap(bytes));
      a.awaitWrites();
      ByteBuffer direct = ByteBuffer.allocateDirect(bytes.length);
      a.exportTokens(0, small, 0, tokens, direct);
      assertThat(direct.flip().mismatch(ByteBuffer.wrap(bytes))).isEqualTo(-1);
      b.importTokens(1, large, 0, tokens, direct);
      b.awaitWrites();
      ByteBuffer again = ByteBuffer.allocate(bytes.length);
      b.exportTokens(1, large, 0, tokens, again);
      assertThat(again.flip().mismatch(ByteBuffer.wrap(bytes))).isEqualTo(-1);
      b.exportTokens(0, large, 0, tokens, again.clear());
      assertThat(again.array()).containsOnly(0);
    }
  }

  /** In a cache's own order, for backends that have one: whole blocks and parts of them. */
  @ParameterizedTest
  @CsvSource({"1", "4", "16", "32"})
  void tokensGoOverAsTheyAreStored(int blockSize) {
    int[] source = scattered(blockSize);
    int[] target = reversed(source.length);
    try (KvStorage a = written(blockSize, source);
        KvStorage b = backend.allocateKv(shape(blockSize));
        KvStorage other = backend.allocateKv(shape(blockSize * 2))) {
      assumeThat(a.storedOrder()).as("an order").isNotNull();
      assertThat(b.storedOrder()).isEqualTo(a.storedOrder());
      assertThat(other.storedOrder()).isNotEqualTo(a.storedOrder());
      for (int layer = 0; layer < LAYERS; layer++) {
        for (int[] range : new int[][] {{13, 8}, {0, 5}, {5, 8}}) {
          ByteBuffer wire = ByteBuffer.allocateDirect(bytes(range[1]) + 4).position(4);
          a.exportStored(layer, source, range[0], range[1], wire);
          assertThat(wire.hasRemaining()).isFalse();
          b.importStored(layer, target, range[0], range[1], wire.position(4));
          assertThat(wire.hasRemaining()).isFalse();
        }
        requireWire(exported(b, layer, target, 0, TOKENS), layer, 0, TOKENS);
        // Two tokens anew, out of a block or two: the others stay.
        ByteBuffer zeros = ByteBuffer.allocate(bytes(2));
        b.importStored(layer, target, 7, 2, zeros);
        requireWire(exported(b, layer, target, 0, 7), layer, 0, 7);
        assertThat(exported(b, layer, target, 7, 2)).isEqualTo(ByteBuffer.allocate(bytes(2)));
        requireWire(exported(b, layer, target, 9, TOKENS - 9), layer, 9, TOKENS - 9);
      }
      assertThatThrownBy(() -> a.exportStored(0, source, 0, 2, ByteBuffer.allocate(bytes(2) - 1)))
          .isInstanceOf(IllegalArgumentException.class);
    }
  }

  @Test
  void manyThreadsExportAtOnce() throws Exception {
    int[] blocks = scattered(4);
    try (KvStorage kv = written(4, blocks)) {
      assumeThat(kv.exportsOnAnyThread()).as("exports on any thread").isTrue();
      ByteBuffer[][] expected = new ByteBuffer[LAYERS][TOKENS];
      for (int layer = 0; layer < LAYERS; layer++) {
        for (int first = 0; first < TOKENS; first++) {
          expected[layer][first] = exported(kv, layer, blocks, first, TOKENS - first);
        }
      }
      kv.awaitWrites();
      Random random = new Random(5);
      List<Callable<Void>> readers = new ArrayList<>();
      for (int reader = 0; reader < 8; reader++) {
        int[] layers = random.ints(200, 0, LAYERS).toArray();
        int[] firsts = random.ints(200, 0, TOKENS).toArray();
        readers.add(
            () -> {
              for (int i = 0; i < layers.length; i++) {
                assertThat(export(kv, layers[i], blocks, firsts[i], TOKENS - firsts[i]))
                    .isEqualTo(expected[layers[i]][firsts[i]]);
              }
              return null;
            });
      }
      requireAll(onThreads(readers));
    }
  }

  /** As a step does: layer after layer is queued, and each leaves as soon as it is there. */
  @Test
  void aLayerIsExportedWhenItIsSaidToBeWritten() throws Exception {
    int[] blocks = scattered(4);
    ExecutorService readers = Executors.newFixedThreadPool(LAYERS);
    try (KvStorage kv = backend.allocateKv(shape(4));
        DeviceBuffer even = harness.filled(TOKENS, SPEC.packedCols(), packed(0));
        DeviceBuffer odd = harness.filled(TOKENS, SPEC.packedCols(), packed(1))) {
      assumeThat(kv.exportsOnAnyThread()).as("exports on any thread").isTrue();
      DeviceBatch batch = backend.upload(batch(4, blocks));
      for (int round = 0; round < 200; round++) {
        List<CompletableFuture<ByteBuffer>> layers = new ArrayList<>();
        for (int layer = 0; layer < LAYERS; layer++) {
          backend.ropeAndWriteKv(batch, round % 2 == 0 ? even : odd, SPEC, null, kv, layer);
          CompletableFuture<Integer> word = new CompletableFuture<>();
          int written = layer;
          kv.whenWritten(() -> word.complete(written));
          layers.add(word.thenApplyAsync(number -> export(kv, number, blocks, 0, TOKENS), readers));
        }
        for (CompletableFuture<ByteBuffer> layer : layers) {
          ByteBuffer got = layer.get(30, TimeUnit.SECONDS);
          assertThat(element(got.order(ByteOrder.LITTLE_ENDIAN)))
              .isEqualTo(expected(round % 2, 0, 0, 0, 0));
          if (round < 2) {
            requireWire(got.rewind(), round, 0, TOKENS);
          }
        }
      }
    } finally {
      readers.shutdownNow();
    }
  }

  @Test
  void wordComesInTheOrderInWhichItWasAskedFor() throws Exception {
    int[] blocks = scattered(4);
    try (KvStorage kv = written(4, blocks)) {
      List<Integer> order = Collections.synchronizedList(new ArrayList<>());
      CountDownLatch all = new CountDownLatch(100);
      for (int i = 0; i < 100; i++) {
        int number = i;
        kv.whenWritten(
            () -> {
              order.add(number);
              all.countDown();
            });
      }
      assertThat(all.await(30, TimeUnit.SECONDS)).isTrue();
      assertThat(order).isSorted().doesNotHaveDuplicates().hasSize(100);
    }
  }

  @Test
  void exportsGoOnWhileTheOwnerWritesOtherTokens() throws Exception {
    int[] blocks = {4, 1, 3, 5, 0, 2};
    int[] others = {6, 11, 7, 10, 8, 9};
    try (KvStorage kv = backend.allocateKv(new KvShape(LAYERS, 12, 4, HEADS, DIM));
        DeviceBuffer x = harness.filled(TOKENS, SPEC.packedCols(), packed(1));
        DeviceBuffer y = harness.filled(TOKENS, SPEC.packedCols(), packed(2))) {
      assumeThat(kv.exportsOnAnyThread()).as("exports on any thread").isTrue();
      DeviceBatch mine = backend.upload(batch(4, blocks));
      for (int layer = 0; layer < LAYERS; layer++) {
        backend.ropeAndWriteKv(mine, x, SPEC, null, kv, layer);
      }
      ByteBuffer expected = exported(kv, 1, blocks, 0, TOKENS);
      requireWire(expected, 1, 0, TOKENS);
      List<Callable<Void>> readers =
          Collections.nCopies(
              4,
              () -> {
                for (int i = 0; i < 200; i++) {
                  assertThat(export(kv, i % LAYERS, blocks, 0, TOKENS)).isEqualTo(expected);
                }
                return null;
              });
      List<Future<Void>> running = onThreads(readers);
      DeviceBatch batch = backend.upload(batch(4, others));
      ByteBuffer zeros = ByteBuffer.allocate(bytes(TOKENS));
      for (int i = 0; running.stream().anyMatch(reader -> !reader.isDone()); i++) {
        backend.ropeAndWriteKv(batch, y, SPEC, null, kv, i % LAYERS);
        kv.copyBlock(others[i % 6], others[(i + 1) % 6]);
        kv.importTokens(i % LAYERS, others, 0, TOKENS, zeros.clear());
      }
      requireAll(running);
      backend.ropeAndWriteKv(batch, y, SPEC, null, kv, 2);
      requireWire(exported(kv, 2, others, 0, TOKENS), 2, 0, TOKENS);
    }
  }

  @Test
  void aClosedCacheIsNotExported() {
    int[] blocks = scattered(4);
    KvStorage kv = written(4, blocks);
    exported(kv, 0, blocks, 0, TOKENS);
    kv.close();
    ByteBuffer to = ByteBuffer.allocate(bytes(TOKENS));
    assertThatThrownBy(() -> kv.exportTokens(0, blocks, 0, TOKENS, to))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("closed");
    assertThat(to.position()).isZero();
  }

  private static List<Future<Void>> onThreads(List<Callable<Void>> tasks) {
    ExecutorService threads = Executors.newFixedThreadPool(tasks.size());
    try {
      return tasks.stream().map(threads::submit).toList();
    } finally {
      threads.shutdown();
    }
  }

  private static void requireAll(List<Future<Void>> tasks) throws Exception {
    for (Future<Void> task : tasks) {
      task.get(30, TimeUnit.SECONDS);
    }
  }

  /** Straight from the cache of another engine, for backends that can. */
  @ParameterizedTest
  @CsvSource({"16, 16", "4, 4", "4, 16", "16, 4", "1, 32", "32, 1", "8, 8"})
  void tokensAreCopiedFromAnotherEnginesCache(int from, int to) {
    int[] target = scattered(to);
    try (Other other = new Other();
        KvStorage b = backend.allocateKv(shape(to))) {
      int[] source = reversed(scattered(from).length);
      KvStorage a = other.written(from, source);
      assumeThat(b.copiesFrom(a)).as("copies").isTrue();
      a.awaitWrites();
      // Pieces that begin and end within blocks, then a layer alone, then two at once.
      b.copyTokens(a, source, target, new KvRange(2, 1, 13, 8));
      b.copyTokens(a, source, target, new KvRange(2, 1, 0, 5));
      b.copyTokens(a, source, target, new KvRange(2, 1, 5, 8));
      b.copyTokens(a, source, target, new KvRange(0, 2, 0, TOKENS));
      for (int layer = 0; layer < LAYERS; layer++) {
        requireWire(exported(b, layer, target, 0, TOKENS), layer, 0, TOKENS);
      }
      assertThat(attention(b, to, target)).isEqualTo(other.attention(from, source));
    }
  }

  /**
   * Only what was asked for changes: a prefix that is there already, other layers, other blocks.
   */
  @ParameterizedTest
  @CsvSource({"4, 4", "4, 16", "16, 4"})
  void copiesLeaveOtherTokensAsTheyAre(int from, int to) {
    int[] source = scattered(from);
    int[] target = scattered(to);
    try (Other other = new Other();
        KvStorage b = backend.allocateKv(shape(to))) {
      KvStorage a = other.written(from, source);
      assumeThat(b.copiesFrom(a)).as("copies").isTrue();
      a.awaitWrites();
      b.copyTokens(a, source, target, new KvRange(1, 1, 8, 7));
      ByteBuffer none = ByteBuffer.allocate(bytes(TOKENS));
      assertThat(exported(b, 0, target, 0, TOKENS)).isEqualTo(none);
      assertThat(exported(b, 2, target, 0, TOKENS)).isEqualTo(none);
      assertThat(exported(b, 1, target, 0, 8)).isEqualTo(none.duplicate().limit(bytes(8)));
      requireWire(exported(b, 1, target, 8, 7), 1, 8, 7);
      assertThat(exported(b, 1, target, 15, 6)).isEqualTo(none.duplicate().limit(bytes(6)));
      // A block that is not the sequence's.
      int[] spare = {shape(to).blocks() - 1};
      assertThat(exported(b, 1, spare, 0, 1)).isEqualTo(none.duplicate().limit(bytes(1)));
    }
  }

  @ParameterizedTest
  @CsvSource({"3, 80, 2011", "1, 6, 1201", "2, 2, 40", "5, 128, 700", "1, 256, 1", "3, 4, 500"})
  void manyTokensAreCopied(int heads, int dim, int tokens) {
    int[] forward = IntStream.range(0, (tokens + 15) / 16).toArray();
    int[] small = reversed((tokens + 3) / 4);
    int row = 2 * heads * dim * backend.activationType().bytes();
    byte[] bytes = new byte[tokens * row];
    Random random = new Random(tokens);
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) random.nextInt(64);
    }
    try (KvStorage a = backend.allocateKv(new KvShape(2, forward.length, 16, heads, dim));
        KvStorage same = backend.allocateKv(new KvShape(2, forward.length, 16, heads, dim));
        KvStorage other = backend.allocateKv(new KvShape(2, small.length, 4, heads, dim))) {
      assumeThat(same.copiesFrom(a)).as("copies").isTrue();
      a.importTokens(1, forward, 0, tokens, ByteBuffer.wrap(bytes));
      a.awaitWrites();
      ByteBuffer again = ByteBuffer.allocate(bytes.length);
      // Blocks that follow each other in both caches, in one of them, and none.
      for (int[] target : new int[][] {forward, reversed(forward.length)}) {
        same.copyTokens(a, forward, target, new KvRange(0, 2, 0, tokens));
        same.exportTokens(1, target, 0, tokens, again.clear());
        assertThat(again.flip().mismatch(ByteBuffer.wrap(bytes))).isEqualTo(-1);
      }
      other.copyTokens(a, forward, small, new KvRange(0, 2, 0, tokens));
      other.exportTokens(1, small, 0, tokens, again.clear());
      assertThat(again.flip().mismatch(ByteBuffer.wrap(bytes))).isEqualTo(-1);
      other.exportTokens(0, small, 0, tokens, again.clear());
      assertThat(again.array()).containsOnly(0);
    }
  }

  @Test
  void onlyCachesOfTheSameFormAreCopiedFrom() {
    KvShape shape = shape(4);
    try (KvStorage kv = written(4, scattered(4))) {
      assumeThat(kv.copiesFrom(kv)).as("copies").isTrue();
      for (KvShape other :
          new KvShape[] {
            new KvShape(LAYERS + 1, shape.blocks(), 4, HEADS, DIM),
            new KvShape(LAYERS, shape.blocks(), 4, HEADS + 1, DIM),
            new KvShape(LAYERS, shape.blocks(), 4, HEADS, DIM * 2)
          }) {
        try (KvStorage wrong = backend.allocateKv(other)) {
          assertThat(kv.copiesFrom(wrong)).as("%s", other).isFalse();
          assertThatThrownBy(
                  () ->
                      kv.copyTokens(
                          wrong, scattered(4), scattered(4), new KvRange(0, 1, 0, TOKENS)))
              .isInstanceOf(IllegalArgumentException.class);
        }
      }
    }
  }

  @Test
  void copiesOfWhatIsNotThereAreRefused() {
    int[] blocks = scattered(4);
    try (KvStorage a = written(4, blocks);
        KvStorage b = backend.allocateKv(shape(4))) {
      assumeThat(b.copiesFrom(a)).as("copies").isTrue();
      for (KvRange range :
          new KvRange[] {new KvRange(LAYERS - 1, 2, 0, 1), new KvRange(-1, 1, 0, 1)}) {
        assertThatThrownBy(() -> b.copyTokens(a, blocks, blocks, range))
            .isInstanceOf(IndexOutOfBoundsException.class);
      }
      for (KvRange range :
          new KvRange[] {
            new KvRange(0, 0, 0, 1),
            new KvRange(0, 1, 0, 0),
            new KvRange(0, 1, -1, 1),
            new KvRange(0, 1, 20, 5)
          }) {
        assertThatThrownBy(() -> b.copyTokens(a, blocks, blocks, range))
            .as("%s", range)
            .isInstanceOf(IllegalArgumentException.class);
      }
      KvRange one = new KvRange(0, 1, 0, 1);
      assertThatThrownBy(() -> b.copyTokens(a, new int[] {99}, blocks, one))
          .isInstanceOf(IllegalArgumentException.class);
      assertThatThrownBy(() -> b.copyTokens(a, blocks, new int[] {-1}, one))
          .isInstanceOf(IllegalArgumentException.class);
    }
  }

  /** Another engine's backend of the same kind, with a cache. */
  private final class Other implements AutoCloseable {

    private final Backend its = open(new BackendOptions(1, 32L << 20, 1L << 20, 0));
    private final BackendHarness harness = new BackendHarness(its);
    private KvStorage kv;

    KvStorage written(int blockSize, int[] blocks) {
      kv = KvTransferContractTest.written(its, harness, blockSize, blocks);
      return kv;
    }

    float[] attention(int blockSize, int[] blocks) {
      return KvTransferContractTest.attention(its, harness, kv, blockSize, blocks);
    }

    @Override
    public void close() {
      if (kv != null) {
        kv.close();
      }
      assertThat(its.memory().used()).as("leaked device memory").isZero();
      its.close();
    }
  }

  private static int[] reversed(int count) {
    return IntStream.range(0, count).map(i -> count - 1 - i).toArray();
  }

  @Test
  void otherTokensStayAsTheyAre() {
    int[] blocks = scattered(4);
    try (KvStorage kv = written(4, blocks)) {
      ByteBuffer zeros = ByteBuffer.allocate(bytes(2));
      kv.importTokens(1, blocks, 6, 2, zeros);
      assertThat(zeros.hasRemaining()).isFalse();
      requireWire(exported(kv, 1, blocks, 0, 6), 1, 0, 6);
      requireWire(exported(kv, 1, blocks, 8, TOKENS - 8), 1, 8, TOKENS - 8);
      requireWire(exported(kv, 0, blocks, 0, TOKENS), 0, 0, TOKENS);
      assertThat(exported(kv, 1, blocks, 6, 2)).isEqualTo(ByteBuffer.allocate(bytes(2)));
    }
  }

  @Test
  void placesThatAreNotThereAreRefused() {
    int[] blocks = scattered(4);
    try (KvStorage kv = written(4, blocks)) {
      ByteBuffer enough = ByteBuffer.allocate(bytes(TOKENS + 10));
      assertThatThrownBy(() -> kv.exportTokens(LAYERS, blocks, 0, 1, enough))
          .isInstanceOf(IndexOutOfBoundsException.class);
      assertThatThrownBy(() -> kv.exportTokens(0, blocks, 20, 5, enough))
          .isInstanceOf(IllegalArgumentException.class);
      assertThatThrownBy(() -> kv.importTokens(0, blocks, -1, 1, enough))
          .isInstanceOf(IllegalArgumentException.class);
      assertThatThrownBy(() -> kv.importTokens(0, blocks, 0, 0, enough))
          .isInstanceOf(IllegalArgumentException.class);
      assertThatThrownBy(() -> kv.importTokens(0, new int[] {99}, 0, 1, enough))
          .isInstanceOf(IllegalArgumentException.class);
      ByteBuffer little = ByteBuffer.allocate(bytes(3) - 1);
      assertThatThrownBy(() -> kv.exportTokens(0, blocks, 0, 3, little))
          .isInstanceOf(IllegalArgumentException.class);
      assertThatThrownBy(() -> kv.importTokens(0, blocks, 0, 3, little))
          .isInstanceOf(IllegalArgumentException.class);
    }
  }

  private int bytes(int tokens) {
    return tokens * 2 * HEADS * DIM * backend.activationType().bytes();
  }

  private static KvShape shape(int blockSize) {
    return new KvShape(LAYERS, TOKENS / blockSize + 4, blockSize, HEADS, DIM);
  }

  /** The blocks of a sequence, in no order of their own. */
  private static int[] scattered(int blockSize) {
    int count = (TOKENS + blockSize - 1) / blockSize;
    return IntStream.range(0, count).map(i -> (count - i) % (count + 1)).toArray();
  }

  /** A cache to which the backend's own operation wrote the tokens. */
  private KvStorage written(int blockSize, int[] blocks) {
    return written(backend, harness, blockSize, blocks);
  }

  private static KvStorage written(
      Backend backend, BackendHarness harness, int blockSize, int[] blocks) {
    KvStorage kv = backend.allocateKv(shape(blockSize));
    for (int layer = 0; layer < LAYERS; layer++) {
      try (DeviceBuffer x = harness.filled(TOKENS, SPEC.packedCols(), packed(layer))) {
        backend.ropeAndWriteKv(backend.upload(batch(blockSize, blocks)), x, SPEC, null, kv, layer);
      }
    }
    return kv;
  }

  /** The rows that the tokens' keys and values of a layer come from. */
  private static float[] packed(int layer) {
    float[] packed = new float[TOKENS * SPEC.packedCols()];
    for (int token = 0; token < TOKENS; token++) {
      for (int head = 0; head < HEADS; head++) {
        for (int d = 0; d < DIM; d++) {
          int keys = token * SPEC.packedCols() + (SPEC.queryHeads() + head) * DIM + d;
          packed[keys] = expected(layer, 0, token, head, d);
          packed[keys + HEADS * DIM] = expected(layer, 1, token, head, d);
        }
      }
    }
    return packed;
  }

  private float[] attention(KvStorage kv, int blockSize, int[] blocks) {
    return attention(backend, harness, kv, blockSize, blocks);
  }

  private static float[] attention(
      Backend backend, BackendHarness harness, KvStorage kv, int blockSize, int[] blocks) {
    int cols = SPEC.queryHeads() * DIM;
    float[] queries = new float[TOKENS * SPEC.packedCols()];
    Arrays.fill(queries, 0.01f);
    try (DeviceBuffer x = harness.filled(TOKENS, SPEC.packedCols(), queries);
        DeviceBuffer y = harness.poisoned(TOKENS, cols)) {
      backend.attention(backend.upload(batch(blockSize, blocks)), x, SPEC, kv, 1, y);
      return harness.read(y, TOKENS * cols);
    }
  }

  private static Batch batch(int blockSize, int[] blocks) {
    int[] positions = IntStream.range(0, TOKENS).toArray();
    int[] slots =
        IntStream.range(0, TOKENS)
            .map(p -> blocks[p / blockSize] * blockSize + p % blockSize)
            .toArray();
    return new Batch(
        TOKENS,
        new int[TOKENS],
        positions,
        slots,
        1,
        new int[] {0, TOKENS},
        new int[] {TOKENS},
        new int[][] {blocks});
  }

  /** What is there once all is written. */
  private ByteBuffer exported(KvStorage kv, int layer, int[] blocks, int first, int count) {
    kv.awaitWrites();
    return export(kv, layer, blocks, first, count);
  }

  private ByteBuffer export(KvStorage kv, int layer, int[] blocks, int first, int count) {
    // Begins and ends within the buffer: nothing else of it may change.
    ByteBuffer buffer = ByteBuffer.allocate(bytes(count) + 16);
    buffer.put(3, (byte) 77).put(bytes(count) + 8, (byte) 78).position(8);
    kv.exportTokens(layer, blocks, first, count, buffer);
    assertThat(buffer.position()).isEqualTo(8 + bytes(count));
    assertThat(buffer.get(3)).isEqualTo((byte) 77);
    assertThat(buffer.get(bytes(count) + 8)).isEqualTo((byte) 78);
    return buffer.flip().position(8).slice();
  }

  private void requireWire(ByteBuffer bytes, int layer, int first, int count) {
    ByteBuffer wire = bytes.duplicate().order(ByteOrder.LITTLE_ENDIAN);
    for (int kind = 0; kind < 2; kind++) {
      for (int token = first; token < first + count; token++) {
        for (int head = 0; head < HEADS; head++) {
          for (int d = 0; d < DIM; d++) {
            assertThat(element(wire))
                .as("layer %d, kind %d, token %d, head %d, %d", layer, kind, token, head, d)
                .isEqualTo(expected(layer, kind, token, head, d));
          }
        }
      }
    }
    assertThat(wire.hasRemaining()).isFalse();
  }

  private float element(ByteBuffer wire) {
    return switch (backend.activationType()) {
      case F32 -> wire.getFloat();
      case BF16 -> Float.intBitsToFloat(wire.getShort() << 16);
      case F16 -> TestTensors.fromHalf(wire.getShort());
    };
  }
}
