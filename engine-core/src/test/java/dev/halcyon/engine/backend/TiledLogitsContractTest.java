package dev.halcyon.engine.backend;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.halcyon.engine.logits.BatchDescription;
import dev.halcyon.engine.logits.ContextLogits;
import dev.halcyon.engine.logits.ContextLogitsPlan;
import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.logits.HeadDescription;
import dev.halcyon.engine.logits.LmHead;
import dev.halcyon.engine.logits.LogitsType;
import dev.halcyon.engine.logits.PromptLogprobs;
import dev.halcyon.engine.logits.RankGroup;
import dev.halcyon.engine.logits.TileReduction;
import dev.halcyon.engine.logits.TiledHead;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What backends that project and reduce tiles of the vocabulary must give: what whole rows give. A
 * backend's test extends this.
 */
public abstract class TiledLogitsContractTest {

  private BackendHarness harness;
  private Backend backend;

  /** Opens the backend under test, whose activations are of 16 bits. */
  protected abstract Backend open(BackendOptions options);

  @BeforeEach
  void openBackend() {
    backend = open(new BackendOptions(2, 1L << 30, 1L << 20, 0));
    harness = new BackendHarness(backend);
  }

  @AfterEach
  void closeBackend() {
    assertThat(backend.memory().used()).as("leaked device memory").isZero();
    backend.close();
  }

  private LogitsType type() {
    return LogitsType.valueOf(backend.activationType().name());
  }

  private float next(float value, int steps) {
    // Elements are the upper bits of a float32 for one type; for the other, ulps are 8 times finer.
    int unit = type() == LogitsType.BF16 ? 1 << 16 : 1 << 13;
    return Float.intBitsToFloat(Float.floatToRawIntBits(value) + steps * unit);
  }

  private static int[] prompt(int length, int vocabSize) {
    return new Random(length).ints(length, 0, vocabSize).toArray();
  }

  /** Multiples of a half around 20: ties everywhere, no zero; some rows have gaps. */
  private static float[] logits(int rows, int cols) {
    Random random = new Random(cols);
    float[] values = new float[rows * cols];
    for (int i = 0; i < values.length; i++) {
      values[i] = 20 + (float) Math.rint(4 * random.nextGaussian()) / 2;
      if (i / cols % 3 == 1 && random.nextInt(4) == 0) {
        values[i] = Float.NEGATIVE_INFINITY;
      }
    }
    return values;
  }

  /**
   * Which bounds a row's target gets: both it, it and a neighbour, some around it, none of these.
   */
  private enum Around {
    EXACT,
    BELOW,
    ABOVE,
    WIDE,
    MISSED
  }

  private float[] bounds(float[] values, int cols, PromptLogprobs out, int first, Around[] around) {
    int rows = around.length;
    float[] bounds = new float[2 * rows];
    for (int row = 0; row < rows; row++) {
      int target = out.target(first + row);
      float logit = target < 0 ? 1 : values[row * cols + target];
      boolean finite = !Float.isInfinite(logit) && !Float.isNaN(logit);
      switch (finite ? around[row] : Around.EXACT) {
        case EXACT -> set(bounds, row, logit, logit);
        case BELOW -> set(bounds, row, next(logit, -1), logit);
        case ABOVE -> set(bounds, row, logit, next(logit, 1));
        case WIDE -> set(bounds, row, next(logit, -2), next(logit, 1));
        case MISSED -> set(bounds, row, next(logit, 1), next(logit, 2));
      }
    }
    return bounds;
  }

  private static void set(float[] bounds, int row, float low, float high) {
    bounds[row] = low;
    bounds[bounds.length / 2 + row] = high;
  }

  /** Reduces rows by tiles; returns those that were refused. */
  private int[] reduce(
      float[] values,
      int rows,
      int cols,
      int columns,
      PromptLogprobs out,
      int first,
      float[] bounds) {
    try (DeviceBuffer limits = harness.filled(2, rows, bounds)) {
      TileReduction reduction = backend.reduceTiles(type(), rows, cols, out, first, limits);
      int done = 0;
      while (done < cols) {
        int from = Math.min(done, cols - columns);
        float[] tile = new float[rows * columns];
        for (int row = 0; row < rows; row++) {
          System.arraycopy(values, row * cols + from, tile, row * columns, columns);
        }
        try (DeviceBuffer logits = harness.filled(rows, columns, tile)) {
          reduction.reduce(logits, from, columns);
        }
        done = from + columns;
      }
      int[] outside = reduction.finish();
      backend.awaitReductions();
      return outside;
    }
  }

  private static void assertEntry(PromptLogprobs actual, int entry, float[] row) {
    new LogprobReference(row).requireEntry(actual, entry);
  }

  private static float[] row(float[] values, int row, int cols) {
    return Arrays.copyOfRange(values, row * cols, (row + 1) * cols);
  }

  /** Rows, columns of a row, columns of a tile, the top, whether ranks are wanted. */
  @ParameterizedTest
  @CsvSource({
    "5, 300, 128, 0, true",
    "11, 257, 256, 3, true",
    "7, 1000, 384, 64, true",
    "40, 5001, 1024, 5, true",
    "6, 50257, 16768, 20, true",
    "3, 70001, 8192, 64, false",
    "2, 131072, 32768, 5, true"
  })
  void tilesGiveWhatWholeRowsDo(int rows, int cols, int columns, int topK, boolean ranked) {
    float[] values = logits(rows, cols);
    PromptLogprobs out = new PromptLogprobs(prompt(rows + 4, cols), topK, ranked);
    for (int row = 0; row < rows; row++) {
      // Not in a gap.
      values[row * cols + out.target(2 + row)] = 19 + row % 4;
    }
    Around[] around = new Around[rows];
    Arrays.setAll(around, row -> Around.values()[row % 3]);
    int[] outside =
        reduce(values, rows, cols, columns, out, 2, bounds(values, cols, out, 2, around));
    assertThat(outside).isEmpty();
    for (int row = 0; row < rows; row++) {
      assertEntry(out, 2 + row, row(values, row, cols));
    }
  }

  /** Every column is 20 in steps of one ulp, up or down: so few are within wide bounds. */
  @Test
  void rowsWithinWideBoundsAreRanked() {
    int cols = 1000;
    int rows = 8;
    float[] values = new float[rows * cols];
    for (int i = 0; i < values.length; i++) {
      int step = i / cols % 2 == 0 ? i % cols : cols - i % cols;
      values[i] = next(type() == LogitsType.BF16 ? 0x1p-10f : 0.5f, step / 2);
    }
    PromptLogprobs out = new PromptLogprobs(prompt(rows + 1, cols), 4, true);
    Around[] around = new Around[rows];
    Arrays.fill(around, Around.WIDE);
    int[] outside = reduce(values, rows, cols, 256, out, 0, bounds(values, cols, out, 0, around));
    assertThat(outside).isEmpty();
    for (int row = 0; row < rows; row++) {
      assertEntry(out, row, row(values, row, cols));
    }
  }

  /**
   * Of equal logits, more are within wide bounds than are noted; nothing is counted for gaps; and
   * bounds may be wrong.
   */
  @Test
  void rowsThatCantBeToldAreNamedAndOthersSet() {
    int cols = 900;
    int rows = 6;
    float[] values = logits(rows, cols);
    Arrays.fill(values, 4 * cols, 5 * cols, 3f);
    PromptLogprobs out = new PromptLogprobs(prompt(rows + 1, cols), 2, true);
    Around[] around = {
      Around.EXACT, Around.EXACT, Around.MISSED, Around.ABOVE, Around.WIDE, Around.EXACT
    };
    values[cols + out.target(1)] = Float.NEGATIVE_INFINITY;
    for (int row : new int[] {0, 2, 3, 5}) {
      values[row * cols + out.target(row)] = 21;
    }
    int[] outside = reduce(values, rows, cols, 512, out, 0, bounds(values, cols, out, 0, around));
    assertThat(outside).containsExactly(1, 2, 4);
    for (int row : new int[] {0, 3, 5}) {
      assertEntry(out, row, row(values, row, cols));
    }
  }

  /** Where the most likely lie plays no part: all equal, all at the end, all at the beginning. */
  @ParameterizedTest
  @ValueSource(ints = {1, 20, 64})
  void listsHoldWhateverTheOrderOfLogits(int topK) {
    int cols = 9000;
    float[] values = new float[5 * cols];
    for (int i = 0; i < cols; i++) {
      values[i] = 2.5f;
      values[cols + i] = i / 64 * 0.125f;
      values[2 * cols + i] = -(i / 64) * 0.125f;
      values[3 * cols + i] = i % 2 == 0 ? Float.NEGATIVE_INFINITY : -(i % 97);
      values[4 * cols + i] = i < 30 ? 7 : Float.NEGATIVE_INFINITY;
    }
    int[] ids = new int[6];
    Arrays.fill(ids, 5);
    PromptLogprobs out = new PromptLogprobs(ids, topK, true);
    Around[] around = new Around[5];
    Arrays.fill(around, Around.EXACT);
    int[] outside = reduce(values, 5, cols, 2048, out, 0, bounds(values, cols, out, 0, around));
    assertThat(outside).isEmpty();
    for (int row = 0; row < 5; row++) {
      assertEntry(out, row, row(values, row, cols));
    }
  }

  /** NaN is not refused, but stays with its row, and names no tokens that do not exist. */
  @Test
  void rowsOfNanLeaveOthersAlone() {
    int cols = 700;
    float[] values = logits(3, cols);
    Arrays.fill(values, cols, 2 * cols, Float.NaN);
    PromptLogprobs out = new PromptLogprobs(prompt(4, cols), 3, true);
    Around[] around = {Around.EXACT, Around.EXACT, Around.EXACT};
    reduce(values, 3, cols, 256, out, 0, bounds(values, cols, out, 0, around));
    assertThat(out.logprob(1)).isNaN();
    assertEntry(out, 0, row(values, 0, cols));
    assertEntry(out, 2, row(values, 2, cols));
  }

  @Test
  void reductionsRefuseWhatCantBe() {
    PromptLogprobs out = new PromptLogprobs(prompt(4, 300), 1, true);
    try (DeviceBuffer bounds = harness.filled(2, 2, new float[4]);
        DeviceBuffer tile = harness.filled(2, 256, new float[512])) {
      assertThat(
              backend.reduceTiles(
                  type(), 2, 300, new PromptLogprobs(prompt(4, 300), 200, true), 0, bounds))
          .as("a long list")
          .isNull();
      assertThat(backend.reduceTiles(LogitsType.F32, 2, 300, out, 0, bounds)).isNull();
      assertRefused(() -> backend.reduceTiles(type(), 3, 300, out, 0, bounds));
      assertRefused(() -> backend.reduceTiles(type(), 2, 300, out, 3, bounds));
      TileReduction reduction = backend.reduceTiles(type(), 2, 300, out, 0, bounds);
      assertRefused(() -> reduction.reduce(tile, 128, 128));
      assertRefused(() -> reduction.reduce(tile, 0, 100));
      assertRefused(() -> reduction.reduce(tile, 0, 384));
      assertRefused(() -> reduction.reduce(tile.slice(0, 512), 0, 256));
      reduction.reduce(tile, 0, 256);
      assertThatThrownBy(reduction::finish).isInstanceOf(IllegalStateException.class);
      assertRefused(() -> reduction.reduce(tile, 0, 256));
      reduction.reduce(tile, 44, 256);
      assertRefused(() -> reduction.reduce(tile, 44, 256));
    }
  }

  private static void assertRefused(ThrowingCallable call) {
    assertThatThrownBy(call).isInstanceOf(IllegalArgumentException.class);
  }

  private Matrix weights(int rows, int cols, double deviation) {
    float[] values =
        TestTensors.random(backend.activationType(), rows * cols, deviation, new Random(rows));
    return backend.load(List.of(TestTensors.tensor(backend.activationType(), rows, cols, values)));
  }

  /** Sums of 16 bits are rounded at the end, so tiles may differ from whole rows by one step. */
  @ParameterizedTest
  @CsvSource({"1, 64, 300, 0, 300", "7, 128, 500, 37, 256", "33, 96, 1000, 999, 1"})
  void linearTilesAreColumnsOfTheWhole(int rows, int in, int cols, int first, int columns) {
    float[] x = harness.random(rows * in, 1, new Random(in));
    try (Matrix weight = weights(cols, in, 0.3);
        DeviceBuffer hidden = harness.filled(rows, in, x);
        DeviceBuffer whole = harness.poisoned(rows, cols);
        DeviceBuffer tile = harness.poisoned(rows + 1, columns)) {
      assertThat(backend.takesTiles(weight)).isTrue();
      backend.linear(hidden, rows, weight, null, whole);
      backend.linearTile(hidden, rows, weight, first, columns, tile);
      float[] expected = harness.read(whole, rows * cols);
      float[] actual = harness.read(tile, (rows + 1) * columns);
      for (int row = 0; row < rows; row++) {
        for (int i = 0; i < columns; i++) {
          float one = expected[row * cols + first + i];
          float step = Math.abs(next(one, 1) - one);
          assertThat(Math.abs(actual[row * columns + i] - one))
              .as("row %d, column %d", row, i)
              .isLessThanOrEqualTo(Math.max(step, 1e-4f));
        }
      }
      for (int i = rows * columns; i < actual.length; i++) {
        assertThat(actual[i]).as("behind the rows").isEqualTo(BackendHarness.POISON);
      }
      assertRefused(() -> backend.linearTile(hidden, rows, weight, cols - 1, 2, tile));
      assertRefused(() -> backend.linearTile(hidden, rows, weight, -1, 1, tile));
    }
  }

  /** Bounds hold what is projected, nearly always one value or two neighbours. */
  @ParameterizedTest
  @CsvSource({"1, 64", "70, 4096", "9, 50"})
  void boundsHoldWhatIsProjected(int rows, int in) {
    int cols = 200;
    float[] x = harness.random(rows * in, 1, new Random(in));
    int[] columns = new Random(5).ints(rows, 0, cols).toArray();
    try (Matrix weight = weights(cols, in, 0.05);
        DeviceBuffer hidden = harness.filled(rows, in, x);
        DeviceBuffer whole = harness.poisoned(rows, cols);
        DeviceBuffer out = harness.poisoned(2, rows)) {
      backend.linear(hidden, rows, weight, null, whole);
      backend.boundLinear(hidden, rows, weight, columns, out);
      float[] logits = harness.read(whole, rows * cols);
      float[] bounds = harness.read(out, 2 * rows);
      int tight = 0;
      for (int row = 0; row < rows; row++) {
        float logit = logits[row * cols + columns[row]];
        assertThat(logit).as("row " + row).isBetween(bounds[row], bounds[rows + row]);
        boolean one = bounds[row] == bounds[rows + row];
        tight += one || Math.abs(next(bounds[row], 1)) >= Math.abs(bounds[rows + row]) ? 1 : 0;
      }
      assertThat(tight).as("of %d rows", rows).isGreaterThanOrEqualTo(rows * 2 / 3);
      columns[0] = cols;
      assertRefused(() -> backend.boundLinear(hidden, rows, weight, columns, out));
      columns[0] = -1;
      backend.boundLinear(hidden, rows, weight, columns, out);
    }
  }

  /** A head whose rows are whole numbers: every order of sums gives the same bits. */
  private final class WholeNumbers implements LmHead {

    private final Matrix weight;
    private final boolean byTiles;

    WholeNumbers(Matrix weight, boolean byTiles) {
      this.weight = weight;
      this.byTiles = byTiles;
    }

    @Override
    public HeadDescription description() {
      return HeadDescription.whole(HeadDescription.Weights.valueOf(type().name()), weight.rows());
    }

    @Override
    public int hiddenSize() {
      return weight.cols();
    }

    @Override
    public int hiddenElementBytes() {
      return 2;
    }

    @Override
    public int vocabSize() {
      return weight.rows();
    }

    @Override
    public int shardSize() {
      return weight.rows();
    }

    @Override
    public LogitsType outputType() {
      return type();
    }

    @Override
    public void project(DeviceBuffer hidden, int rows, DeviceBuffer out) {
      backend.linear(hidden, rows, weight, null, out);
      backend.transformLogits(out, rows, weight.rows(), 0.5f, 30);
    }

    @Override
    public TiledHead tiled() {
      return byTiles ? new Tiles() : null;
    }

    private final class Tiles implements TiledHead {

      @Override
      public void project(DeviceBuffer hidden, int rows, int first, int columns, DeviceBuffer out) {
        backend.linearTile(hidden, rows, weight, first, columns, out);
        backend.transformLogits(out, rows, columns, 0.5f, 30);
      }

      @Override
      public void bound(DeviceBuffer hidden, int rows, int[] columns, DeviceBuffer out) {
        backend.boundLinear(hidden, rows, weight, columns, out);
        backend.transformLogits(out, 2, rows, 0.5f, 30);
      }
    }
  }

  /** 700 rows of 50,000 entries are 67 MiB of 16 bits: two tiles, or two runs of whole rows. */
  @Test
  void plansScoreRowsByTilesAsByWholeRows() {
    int rows = 700;
    int cols = 50_001;
    int in = 16;
    Random random = new Random(3);
    float[] values = new float[cols * in];
    for (int i = 0; i < values.length; i++) {
      values[i] = random.nextInt(7) - 3;
    }
    float[] x = new float[rows * in];
    for (int i = 0; i < x.length; i++) {
      x[i] = random.nextInt(9) - 4;
    }
    int[] ids = prompt(rows, cols);
    PromptLogprobs byTiles = new PromptLogprobs(ids, 5, true);
    PromptLogprobs byRows = new PromptLogprobs(ids, 5, true);
    HostTensor tensor = TestTensors.tensor(backend.activationType(), cols, in, values);
    try (Matrix weight = backend.load(List.of(tensor));
        DeviceBuffer hidden = harness.filled(rows, in, x)) {
      score(new WholeNumbers(weight, true), hidden, byTiles);
      score(new WholeNumbers(weight, false), hidden, byRows);
    }
    for (int entry = 0; entry < rows; entry++) {
      // One step of float32 between 32 and 64.
      assertThat(byTiles.logprob(entry)).isCloseTo(byRows.logprob(entry), within(4e-6f));
      assertThat(byTiles.rank(entry)).as("rank of entry " + entry).isEqualTo(byRows.rank(entry));
      for (int i = 0; i < 5; i++) {
        assertThat(byTiles.topId(entry, i)).isEqualTo(byRows.topId(entry, i));
      }
    }
  }

  private void score(LmHead head, DeviceBuffer hidden, PromptLogprobs out) {
    try (ContextLogitsPlan plan = new ContextLogitsPlan(head, backend, RankGroup.single());
        ContextLogits target = plan.open("a test", out.entries(), false, out)) {
      plan.project(target, BatchDescription.PLAIN, hidden, 0, 0, out.entries(), null);
      out.scoreFirstToken(7);
    }
  }
}
