package dev.halcyon.engine.model;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.TestBackend;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.FieldSource;

/** Every family and variant gives the logits and greedy ids of Hugging Face transformers. */
public class FamilyReferenceTest {

  /** What the engines compute on. */
  protected TestBackend backend() {
    return TestBackend.CPU;
  }

  static final List<String> FIXTURES = Fixture.NAMES;

  private static final float TOLERANCE = 1e-4f;
  private static final int MAX_LENGTH = 192;
  private static final int WHOLE = DecoderHarness.MAX_BATCH_TOKENS;

  /** The sizes of chunks that prompts are computed in. */
  protected int[] chunks() {
    return new int[] {WHOLE, 33, 7, 1};
  }

  @ParameterizedTest
  @FieldSource("FIXTURES")
  void promptsAloneAndTogetherWholeAndInChunks(String name) {
    Fixture fixture = Fixture.open(name);
    List<Fixture.Case> cases = fixture.cases();
    try (DecoderHarness harness =
        new DecoderHarness(backend(), fixture.files(), fixture.config("config.json"), MAX_LENGTH)) {
      for (int blockSize : new int[] {4, 16}) {
        for (int chunk : chunks()) {
          check(harness, cases, chunk, blockSize);
        }
      }
      for (Fixture.Case one : cases) {
        for (int chunk : chunks()) {
          check(harness, List.of(one), chunk, chunk == WHOLE ? 16 : 4);
        }
      }
    }
  }

  @ParameterizedTest
  @FieldSource("FIXTURES")
  void classicConfigRunsTheSame(String name) {
    Fixture fixture = Fixture.open(name);
    ModelConfig config = fixture.config("config-classic.json");
    try (DecoderHarness harness =
        new DecoderHarness(backend(), fixture.files(), config, MAX_LENGTH)) {
      check(harness, fixture.cases(), WHOLE, 16);
    }
  }

  /** Long enough to be projected in pieces of 32, 32 and 27 rows. */
  @Test
  void everyFamilyHasALongPrompt() {
    Set<String> families =
        FIXTURES.stream()
            .map(Fixture::open)
            .filter(fixture -> fixture.cases().stream().anyMatch(c -> c.promptIds().length == 91))
            .map(fixture -> fixture.config("config.json").architecture())
            .collect(Collectors.toSet());
    assertThat(families).containsExactlyInAnyOrderElementsOf(ModelFamily.architectures());
  }

  private static void check(
      DecoderHarness harness, List<Fixture.Case> cases, int chunk, int blockSize) {
    List<SequenceRun> runs =
        cases.stream().map(c -> new SequenceRun(c.promptIds(), c.greedyIds().length)).toList();
    harness.run(runs, chunk, blockSize);
    String how = "%d prompts, chunks of %d, blocks of %d".formatted(cases.size(), chunk, blockSize);
    for (int i = 0; i < runs.size(); i++) {
      float[][] expected = cases.get(i).logits();
      String prompt = how + ", prompt of " + expected.length;
      assertThat(runs.get(i).logits).as(prompt).hasSize(expected.length);
      assertThat(largestDifference(runs.get(i).logits, expected))
          .as(prompt + ": largest difference of a logit")
          .isLessThanOrEqualTo(TOLERANCE);
      assertThat(runs.get(i).generated()).as(prompt).isEqualTo(cases.get(i).greedyIds());
    }
  }

  private static float largestDifference(List<float[]> logits, float[][] expected) {
    float largest = 0;
    for (int row = 0; row < expected.length; row++) {
      for (int i = 0; i < expected[row].length; i++) {
        float difference = Math.abs(logits.get(row)[i] - expected[row][i]);
        // Not Math.max alone: a comparison with NaN must not pass.
        largest = Float.isNaN(difference) ? Float.POSITIVE_INFINITY : Math.max(largest, difference);
      }
    }
    return largest;
  }
}
