package dev.halcyon.engine.backend;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.halcyon.engine.LogitsProcessorException;
import dev.halcyon.engine.SamplingException;
import dev.halcyon.engine.TokenLogprobs;
import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.sampling.HostSampler;
import dev.halcyon.engine.sampling.Rows;
import dev.halcyon.engine.sampling.SampledToken;
import dev.halcyon.engine.sampling.SamplingRow;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What every backend's sampler must choose: what the host's does on the same rows, whose own tests
 * hold it to arithmetic and to exact distributions. A backend's test extends this.
 */
public abstract class SamplingContractTest {

  private static final float NEVER = Float.NEGATIVE_INFINITY;

  /** Of logprobs of size 20, whose own rounding to float32 is 1e-6. */
  private static final double TOLERANCE = 4e-6;

  private Backend backend;
  private BackendHarness harness;

  /** Opens the backend under test. */
  protected abstract Backend open(BackendOptions options);

  @BeforeEach
  void openBackend() {
    backend = open(new BackendOptions(2, 256L << 20, 1L << 20, 0));
    harness = new BackendHarness(backend);
  }

  @AfterEach
  void closeBackend() {
    assertThat(backend.memory().used()).as("leaked device memory").isZero();
    backend.close();
  }

  /** Samples entries of rows, and requires what the host's sampler gives. */
  private List<SampledToken> assertAsHost(
      float[] logits, int vocabSize, List<SamplingRow> entries) {
    int rows = logits.length / vocabSize;
    try (DeviceBuffer buffer = harness.filled(rows, vocabSize, logits)) {
      List<SampledToken> tokens = backend.sample(buffer, vocabSize, entries);
      assertThat(tokens).hasSameSizeAs(entries);
      for (int i = 0; i < tokens.size(); i++) {
        SamplingRow entry = entries.get(i);
        int at = entry.row() * vocabSize;
        float[] row = Arrays.copyOfRange(logits, at, at + vocabSize);
        SampledToken expected = new HostSampler().sample(row.clone(), entry);
        assertSame(tokens.get(i), expected, row, "entry " + i + " " + entry.settings());
      }
      assertThat(harness.read(buffer, logits.length)).as("rows stay as they are").isEqualTo(logits);
      return tokens;
    }
  }

  private static void assertSame(
      SampledToken actual, SampledToken expected, float[] row, String what) {
    if (expected.error() != null) {
      assertThat(actual.error()).as(what).hasSameClassAs(expected.error());
      assertThat(actual.error()).as(what).hasMessage(expected.error().getMessage());
      return;
    }
    assertThat(actual.error()).as(what).isNull();
    assertThat(actual.tokenId()).as(what).isEqualTo(expected.tokenId());
    assertThat(actual.logits()).as(what).isEqualTo(expected.logits());
    if (expected.logprobs() == null) {
      assertThat(actual.logprobs()).as(what).isNull();
      return;
    }
    Map<Integer, TokenLogprobs.Entry> entries = expected.logprobs().entries();
    assertThat(actual.logprobs().tokenId()).isEqualTo(expected.tokenId());
    assertThat(new ArrayList<>(actual.logprobs().entries().keySet()))
        .as(what)
        .isEqualTo(new ArrayList<>(entries.keySet()));
    actual
        .logprobs()
        .entries()
        .forEach(
            (id, entry) -> {
              assertThat(entry.rank()).as(what).isEqualTo(entries.get(id).rank());
              if (row[id] != NEVER) {
                assertThat((double) entry.logprob())
                    .as(what)
                    .isCloseTo(entries.get(id).logprob(), within(TOLERANCE));
              } else {
                assertThat(entry.logprob()).isEqualTo(NEVER);
              }
            });
  }

  private float[] gaussian(int count, double deviation, Random random) {
    return harness.random(count, deviation, random);
  }

  /** All kinds of settings, with other seeds each, on rows of odd and even vocabularies. */
  @ParameterizedTest
  @ValueSource(ints = {1, 2, 31, 33, 1000, 8193, 50_257})
  void choosesWhatTheHostDoes(int vocabSize) {
    Random random = new Random(vocabSize);
    int rows = 3;
    float[] logits = gaussian(rows * vocabSize, 4, random);
    for (int i = 2 * vocabSize; i < 3 * vocabSize; i++) {
      logits[i] = random.nextInt(4) == 0 ? NEVER : harness.rounded(new float[] {i % 7})[0];
    }
    logits[2 * vocabSize] = 1;
    List<SamplingRow> entries = new ArrayList<>();
    int tries = vocabSize > 10_000 ? 40 : 150;
    for (int i = 0; i < tries; i++) {
      entries.add(random(random, vocabSize).row(random.nextInt(rows)));
    }
    assertAsHost(logits, vocabSize, entries);
  }

  private static Rows random(Random random, int vocabSize) {
    Rows rows = new Rows();
    rows.temperature = new float[] {0, 0.3f, 1, 1, 2, 40}[random.nextInt(6)];
    rows.topK = new int[] {0, 0, 1, 2, 40, 128, 129, 700}[random.nextInt(8)];
    rows.topP = new float[] {1, 1, 0.2f, 0.6f, 0.95f, 0.999f}[random.nextInt(6)];
    rows.minP = new float[] {0, 0, 0, 0.02f, 0.3f}[random.nextInt(5)];
    rows.seed = random.nextLong();
    rows.position = random.nextInt(50);
    rows.sampleIndex = random.nextInt(3);
    rows.logprobs = new int[] {-1, 0, 1, 5, 20, 200}[random.nextInt(6)];
    rows.logprobs = Math.min(rows.logprobs, vocabSize);
    rows.copyLogits = random.nextInt(8) == 0;
    if (random.nextInt(3) == 0) {
      rows.repetition = random.nextBoolean() ? 1 : 1.3f;
      rows.presence = random.nextBoolean() ? 0 : 0.7f;
      rows.frequency = random.nextBoolean() ? 0 : 0.21f;
      rows.prompt = random.ints(20, 0, vocabSize).toArray();
      rows.generated = random.ints(30, 0, Math.min(vocabSize, 17)).toArray();
    }
    if (random.nextInt(4) == 0) {
      int biased = random.nextInt(vocabSize);
      rows.bias = biased == 0 ? Map.of(0, -1.5f) : Map.of(biased, 6f, 0, -1.5f);
    }
    if (random.nextInt(4) == 0 && vocabSize > 2) {
      rows.minTokens = 100;
      rows.endIds = Set.of(random.nextInt(vocabSize), vocabSize + 5);
    }
    return rows;
  }

  /** Filters and lists of any size, with many ties at every border. */
  @Test
  void largeVocabulariesAndLongLists() {
    int vocabSize = 262_144;
    Random random = new Random(3);
    float[] logits = gaussian(2 * vocabSize, 1, random);
    for (int i = vocabSize; i < 2 * vocabSize; i++) {
      logits[i] = (i & 3) * 0.125f;
    }
    List<SamplingRow> entries = new ArrayList<>();
    for (int row = 0; row < 2; row++) {
      entries.add(Rows.greedy().row(row));
      for (int topK : new int[] {0, 50, 5000, 200_000}) {
        for (float topP : new float[] {0.001f, 0.5f, 1}) {
          Rows rows = new Rows();
          rows.topK = topK;
          rows.topP = topP;
          rows.seed = entries.size();
          rows.logprobs = topK == 50 ? 1000 : 3;
          entries.add(rows.row(row));
        }
      }
    }
    assertAsHost(logits, vocabSize, entries);
  }

  @Test
  void equalLogitsGoByTheirIds() {
    float[] logits = new float[70_000];
    Arrays.fill(logits, -3);
    List<SamplingRow> entries = new ArrayList<>(List.of(Rows.greedy().row(0)));
    for (int topK : new int[] {2, 128, 129, 30_000}) {
      for (float topP : new float[] {1, 0.5f, Float.MIN_VALUE}) {
        Rows rows = new Rows();
        rows.topK = topK;
        rows.topP = topP;
        rows.logprobs = Math.min(topK, 300);
        rows.seed = topK;
        entries.add(rows.row(0));
      }
    }
    List<SampledToken> tokens = assertAsHost(logits, logits.length, entries);
    assertThat(tokens.get(0).tokenId()).isZero();
    for (int i = 1; i < tokens.size(); i++) {
      assertThat(tokens.get(i).tokenId()).isLessThan(entries.get(i).settings().topK());
    }
  }

  @Test
  void extremeTemperatures() {
    float[] logits = gaussian(5000, 3, new Random(4));
    List<SamplingRow> entries = new ArrayList<>();
    for (float temperature : new float[] {Float.MIN_VALUE, 1e-30f, 1e-3f, 1e4f, 1e30f}) {
      for (float topP : new float[] {0.5f, 1}) {
        for (int topK : new int[] {0, 7, 400}) {
          Rows rows = new Rows();
          rows.temperature = temperature;
          rows.topP = topP;
          rows.topK = topK;
          rows.seed = entries.size();
          entries.add(rows.row(0));
        }
      }
    }
    assertAsHost(logits, logits.length, entries);
  }

  /**
   * 10,000 draws from 12 tokens against their probabilities: 11 degrees of freedom, whose upper
   * 1e-4 quantile is 37.367 (from scipy). The other 9,600 are ruled out in one way each.
   */
  @Test
  void drawsFollowTheProbabilities() {
    int vocabSize = 9_612;
    int draws = 10_000;
    float[] logits = new float[vocabSize];
    Arrays.fill(logits, -50);
    double[] weights = new double[12];
    double total = 0;
    for (int i = 0; i < 12; i++) {
      logits[i * 800] = i / 4f;
      weights[i] = Math.exp(i / 4f);
      total += weights[i];
    }
    for (int way = 0; way < 4; way++) {
      List<SamplingRow> entries = new ArrayList<>();
      for (int i = 0; i < draws; i++) {
        Rows rows = new Rows();
        rows.topK = way == 1 ? 12 : way == 2 ? 0 : way == 3 ? 1000 : 0;
        rows.topP = way == 3 ? 0.99999f : 1;
        rows.minP = way == 2 ? 1e-4f : 0;
        rows.seed = 77;
        rows.position = i;
        entries.add(rows.row(0));
      }
      int[] counts = new int[vocabSize];
      try (DeviceBuffer buffer = harness.filled(1, vocabSize, logits)) {
        for (int i = 0; i < draws; i += 500) {
          backend
              .sample(buffer, vocabSize, entries.subList(i, i + 500))
              .forEach(token -> counts[token.tokenId()]++);
        }
      }
      double chiSquare = 0;
      for (int i = 0; i < 12; i++) {
        double expected = draws * weights[i] / total;
        double off = counts[i * 800] - expected;
        chiSquare += off * off / expected;
      }
      assertThat(chiSquare).as("way " + way).isLessThan(37.367);
    }
  }

  @Test
  void aTokenDependsNeitherOnTheBatchNorOnTheRowsPlace() {
    int vocabSize = 999;
    float[] logits = gaussian(4 * vocabSize, 2, new Random(5));
    System.arraycopy(logits, 0, logits, 3 * vocabSize, vocabSize);
    Set<Integer> tokens = new HashSet<>();
    List<SamplingRow> entries = new ArrayList<>();
    for (int i = 0; i < 40; i++) {
      Rows rows = new Rows();
      rows.topP = 0.9f;
      rows.seed = 5;
      rows.position = 2;
      rows.logprobs = 2;
      entries.add(rows.row(i % 2 == 0 ? 0 : 3));
    }
    assertAsHost(logits, vocabSize, entries).forEach(token -> tokens.add(token.tokenId()));
    assertThat(tokens).hasSize(1);
  }

  @Test
  void whatCantBeSampledFailsAlone() {
    float[] logits = new float[8 * 40];
    logits[40 + 7] = Float.NaN;
    Arrays.fill(logits, 80, 120, NEVER);
    logits[120 + 9] = Float.POSITIVE_INFINITY;
    logits[160] = 3;
    List<SamplingRow> entries = new ArrayList<>();
    for (int row = 0; row < 5; row++) {
      entries.add(Rows.greedy().row(row));
      Rows drawn = new Rows();
      drawn.topK = 5;
      entries.add(drawn.row(row));
    }
    Rows unknownBias = new Rows();
    unknownBias.bias = Map.of(40, 1f);
    entries.add(unknownBias.row(0));
    Rows banned = new Rows();
    banned.bias = Map.of(0, NEVER);
    entries.add(banned.row(4));
    Rows thrower = new Rows();
    thrower.processor =
        (prompt, generated, row) -> {
          throw new IllegalStateException("a caller's mistake");
        };
    entries.add(thrower.row(4));
    Rows doubler = Rows.greedy();
    doubler.processor =
        (prompt, generated, row) -> {
          row[11] = 9;
          return row;
        };
    doubler.logprobs = 2;
    doubler.copyLogits = true;
    entries.add(doubler.row(4));
    List<SampledToken> tokens = assertAsHost(logits, 40, entries);
    for (int i = 2; i < 8; i++) {
      assertThat(tokens.get(i).error()).as("entry " + i).isInstanceOf(SamplingException.class);
    }
    assertThat(tokens.get(10).error()).isInstanceOf(RuntimeException.class);
    assertThat(tokens.get(12).error()).isInstanceOf(LogitsProcessorException.class);
    assertThat(tokens.get(13).tokenId()).isEqualTo(11);
  }

  @Test
  void noEntriesAreNoTokens() {
    try (DeviceBuffer buffer = harness.poisoned(1, 3)) {
      assertThat(backend.sample(buffer, 3, List.of())).isEmpty();
    }
  }
}
