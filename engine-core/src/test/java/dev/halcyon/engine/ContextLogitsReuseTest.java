package dev.halcyon.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.model.Fixture;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.TestInstance.Lifecycle;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Rows of a prompt whose blocks are cached. Each test and length has a cache of its own, by its
 * salt.
 */
@Timeout(60)
@TestInstance(Lifecycle.PER_CLASS)
public class ContextLogitsReuseTest {

  /** What the engines compute on. */
  protected TestBackend backend() {
    return TestBackend.CPU;
  }

  private static final int BLOCK = 16;
  private static final String MODEL = "llama2";

  private static final SamplingParams BOTH =
      SamplingParams.builder()
          .temperature(0f)
          .maxTokens(1)
          .ignoreEos(true)
          .returnContextLogits(true)
          .promptLogprobs(5)
          .build();
  private static final SamplingParams COMPACT =
      BOTH.toBuilder().returnContextLogits(false).promptLogprobs(0).build();
  private static final SamplingParams FULL = BOTH.toBuilder().promptLogprobs(null).build();
  private static final SamplingParams PLAIN =
      COMPACT.toBuilder().promptLogprobs(null).maxTokens(2).build();

  private static PromptReference whole;
  private static Engine engine;

  @BeforeAll
  void open() {
    List<Fixture.Case> cases = Fixture.open(MODEL).cases();
    Fixture.Case longest = cases.get(cases.size() - 1);
    whole = PromptReference.of(longest.promptIds(), longest.logits());
    engine = engine().build();
  }

  private EngineBuilder engine() {
    return backend()
        .engine()
        .model(Fixture.directory(MODEL))
        .threads(1)
        .kvBlockSize(BLOCK)
        .kvCacheTokens(4096)
        .integrityChecks(true);
  }

  @AfterAll
  static void close() {
    engine.close();
  }

  /** What cached blocks can stand in for: whole ones, and one token at least is computed. */
  private static int cached(int length) {
    return (length - 1) / BLOCK * BLOCK;
  }

  private static GenerationRequest request(
      PromptReference prompt, String salt, SamplingParams params, PrefixReuse reuse) {
    return GenerationRequest.builder(prompt.prompt())
        .params(params)
        .cacheSalt(salt)
        .prefixReuse(reuse)
        .build();
  }

  private static GenerationResult run(
      PromptReference prompt, String salt, SamplingParams params, PrefixReuse reuse) {
    return engine.generate(request(prompt, salt, params, reuse));
  }

  private static void assertReference(PromptReference prompt, GenerationResult result, int k) {
    assertThat(result.outputs().get(0).tokenIds().get(0)).isEqualTo(prompt.greedyToken());
    if (result.contextLogits() != null) {
      prompt.checkLogits("context logits", result.contextLogits());
    }
    prompt.checkLogprobs("logprobs", result.promptLogprobs(), prompt.greedyToken(), k);
  }

  /** To the bit. */
  private static void assertSameRows(GenerationResult result, GenerationResult expected) {
    assertThat(result.promptLogprobs()).isEqualTo(expected.promptLogprobs());
    LogitsView rows = result.contextLogits();
    assertThat(rows.rows()).isEqualTo(expected.contextLogits().rows());
    for (int i = 0; i < rows.rows(); i++) {
      assertThat(rows.row(i)).as("row %d", i).isEqualTo(expected.contextLogits().row(i));
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1})
  void cachedBlocksChangeNoRow(int length) {
    PromptReference prompt = whole.beginning(length);
    String salt = "rows " + length;
    try (GenerationResult first = run(prompt, salt, BOTH, PrefixReuse.AUTO);
        GenerationResult second = run(prompt, salt, BOTH, PrefixReuse.AUTO);
        GenerationResult never = run(prompt, salt, BOTH, PrefixReuse.NEVER)) {
      assertReference(prompt, first, 5);
      for (GenerationResult again : List.of(second, never)) {
        assertSameRows(again, first);
        assertThat(again.usage().cachedPromptTokens()).isZero();
      }
      GenerationResult compact = run(prompt, salt, COMPACT, PrefixReuse.AUTO);
      assertReference(prompt, compact, 0);
      assertThat(compact.usage().cachedPromptTokens()).isZero();
      try (GenerationResult full = run(prompt, salt, FULL, PrefixReuse.AUTO)) {
        prompt.checkLogits("full", full.contextLogits());
        assertThat(full.usage().cachedPromptTokens()).isZero();
      }
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1})
  void otherRequestsReuseWhatOnesWithRowsWrote(int length) {
    PromptReference prompt = whole.beginning(length);
    String salt = "others " + length;
    run(prompt, salt, BOTH, PrefixReuse.NEVER).close();
    GenerationResult never = run(prompt, salt, PLAIN, PrefixReuse.NEVER);
    assertThat(never.usage().cachedPromptTokens()).isZero();
    for (PrefixReuse reuse : List.of(PrefixReuse.AUTO, PrefixReuse.REQUIRED)) {
      GenerationResult plain = run(prompt, salt, PLAIN, reuse);
      assertThat(plain.usage().cachedPromptTokens()).isEqualTo(cached(length));
      assertThat(plain.outputs().get(0).tokenIds())
          .isEqualTo(never.outputs().get(0).tokenIds())
          .startsWith(prompt.greedyToken());
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1})
  void requiredReuseFailsWithTheRowsThatAreMissingOrIsComplete(int length) {
    PromptReference prompt = whole.beginning(length);
    for (SamplingParams params : List.of(BOTH, COMPACT)) {
      String salt = "required " + length + params.promptLogprobs();
      int k = params.promptLogprobs();
      try (GenerationResult uncached = run(prompt, salt, params, PrefixReuse.REQUIRED)) {
        assertReference(prompt, uncached, k);
        assertThat(uncached.usage().cachedPromptTokens()).isZero();
      }
      if (cached(length) == 0) {
        try (GenerationResult again = run(prompt, salt, params, PrefixReuse.REQUIRED)) {
          assertReference(prompt, again, k);
        }
      } else {
        assertThatThrownBy(() -> run(prompt, salt, params, PrefixReuse.REQUIRED))
            .isInstanceOfSatisfying(
                IncompleteContextLogitsException.class,
                e -> {
                  assertThat(e.firstMissing()).isZero();
                  assertThat(e.endMissing()).isEqualTo(cached(length));
                })
            .hasMessageContaining("Rows 0 to " + (cached(length) - 1));
      }
      try (GenerationResult next = run(prompt, salt, params, PrefixReuse.AUTO)) {
        assertReference(prompt, next, k);
      }
    }
    assertThat(engine.metrics().freeBlocks()).isEqualTo(engine.metrics().totalBlocks());
  }

  @ParameterizedTest
  @ValueSource(ints = {BLOCK + 1, 2 * BLOCK + 1})
  void requiredReuseIsCompleteWhereTheEngineReusesNothing(int length) {
    PromptReference prompt = whole.beginning(length);
    try (Engine other = engine().prefixReuse(false).build()) {
      for (int i = 0; i < 2; i++) {
        GenerationRequest request = request(prompt, null, BOTH, PrefixReuse.REQUIRED);
        try (GenerationResult result = other.generate(request)) {
          assertReference(prompt, result, 5);
        }
      }
    }
  }

  /** The orders of the four requests of {@link #theOrderOfSubmissionChangesNothing}. */
  static List<Arguments> orders() {
    List<Arguments> orders = new ArrayList<>();
    for (int first = 0; first < 4; first++) {
      for (int second = 0; second < 4; second++) {
        for (int third = 0; third < 4; third++) {
          int fourth = 6 - first - second - third;
          if (first != second && first != third && second != third) {
            orders.add(Arguments.of(List.of(first, second, third, fourth)));
          }
        }
      }
    }
    return orders;
  }

  /** Together and one after another; the longest prompt begins with the others. */
  @ParameterizedTest
  @MethodSource("orders")
  void theOrderOfSubmissionChangesNothing(List<Integer> order) {
    List<SamplingParams> kinds = List.of(BOTH, PLAIN, COMPACT, BOTH);
    List<Integer> lengths = List.of(2 * BLOCK + 1, 3 * BLOCK, 2 * BLOCK + 5, 4 * BLOCK + 2);
    for (boolean together : new boolean[] {true, false}) {
      String salt = "order " + order + together;
      List<GenerationHandle> handles = new ArrayList<>();
      for (int which : order) {
        PromptReference prompt = whole.beginning(lengths.get(which));
        handles.add(engine.submit(request(prompt, salt, kinds.get(which), PrefixReuse.AUTO)));
        if (!together) {
          handles.get(handles.size() - 1).await();
        }
      }
      for (int i = 0; i < order.size(); i++) {
        int which = order.get(i);
        PromptReference prompt = whole.beginning(lengths.get(which));
        try (GenerationResult result = handles.get(i).await()) {
          if (kinds.get(which) == PLAIN) {
            assertThat(result.outputs().get(0).tokenIds()).startsWith(prompt.greedyToken());
          } else {
            assertReference(prompt, result, kinds.get(which).promptLogprobs());
            assertThat(result.usage().cachedPromptTokens()).isZero();
          }
        }
      }
    }
  }
}
