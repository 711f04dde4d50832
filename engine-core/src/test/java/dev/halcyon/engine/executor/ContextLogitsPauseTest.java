package dev.halcyon.engine.executor;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.CapacityPolicy;
import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.Gate;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.PrefixReuse;
import dev.halcyon.engine.PromptReference;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.executor.StepPlan.Chunk;
import dev.halcyon.engine.logits.BatchDescription;
import dev.halcyon.engine.model.Fixture;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Requests for rows of their prompts in a cache that is too small for them, so that they are paused
 * in the middle of the prompt, and behind it, and computed again. Their rows stay the reference's.
 */
@Timeout(60)
public class ContextLogitsPauseTest {

  /** What the engines compute on. */
  protected TestBackend backend() {
    return TestBackend.CPU;
  }

  private static final String MODEL = "llama3-gqa-tied";
  private static final int BLOCK = 4;

  /** The longest prompt, of 91 tokens, with its 37 generated ones takes 32 blocks of these. */
  private static final int BLOCKS = 40;

  private static final int REQUESTS = 24;

  /** Counts what was computed for a second time. */
  private static final class Repeats implements Function<List<Chunk>, BatchDescription> {

    private int amidThePrompt;
    private int behindThePrompt;
    private int reusedOwnBlocks;

    @Override
    public BatchDescription apply(List<Chunk> step) {
      for (Chunk chunk : step) {
        ContextOutput context = chunk.sequence().request().context();
        if (context != null && chunk.start() < chunk.sequence().promptLength()) {
          int there = context.rows().scored();
          amidThePrompt += !context.complete() && chunk.start() < there ? 1 : 0;
          behindThePrompt += context.complete() ? 1 : 0;
          reusedOwnBlocks +=
              chunk.sequence().table().reusedTokens() > 0 && !context.complete() ? 1 : 0;
        }
      }
      return BatchDescription.PLAIN;
    }
  }

  @ParameterizedTest(name = "{0} tokens a step")
  @ValueSource(ints = {6, 7, 9})
  void rowsOfPausedRequestsAreCompleteAndRight(int maxBatchTokens) {
    List<Fixture.Case> cases = Fixture.open(MODEL).cases();
    Repeats repeats = new Repeats();
    try (DescribedModel model = new DescribedModel(engine(maxBatchTokens), repeats)) {
      Gate gate = holdAtGate(model);
      List<GenerationHandle> handles = new ArrayList<>();
      for (int i = 0; i < REQUESTS; i++) {
        handles.add(model.submit(request(i, pick(cases, i))));
      }
      gate.open();
      for (int i = 0; i < REQUESTS; i++) {
        try (GenerationResult result = handles.get(i).await()) {
          check(pick(cases, i), params(i, pick(cases, i)), result);
        }
      }
      assertThat(model.metrics().pauses()).isPositive();
      assertThat(model.metrics().freeBlocks()).isEqualTo(BLOCKS);
    }
    assertThat(repeats.amidThePrompt).as("prompts begun again in the middle").isPositive();
    assertThat(repeats.behindThePrompt).as("prompts begun again behind their end").isPositive();
  }

  /**
   * A request that insists on reuse takes up its own blocks again, whose rows it has. Of 30 blocks,
   * the first output comes to hold 12 and the second prompt 18 before it is complete. Then it is
   * paused, and goes on when the first output, of 42 tokens, has ended: soon, so that most of the
   * blocks are still cached.
   */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aPausedRequestMayGoOnFromItsOwnBlocks(boolean full) {
    List<Fixture.Case> cases = Fixture.open(MODEL).cases();
    Fixture.Case growing = cases.get(1);
    Fixture.Case paused = cases.get(cases.size() - 1);
    SamplingParams first =
        SamplingParams.builder().temperature(0f).maxTokens(42).ignoreEos(true).build();
    SamplingParams second =
        first.toBuilder().maxTokens(4).returnContextLogits(full).promptLogprobs(5).build();
    Repeats repeats = new Repeats();
    EngineBuilder builder = engine(3).maxBatchSize(2).kvCacheTokens(30 * BLOCK);
    try (DescribedModel model = new DescribedModel(builder, repeats)) {
      Gate gate = holdAtGate(model);
      model.submit(GenerationRequest.of(growing.promptIds(), first));
      GenerationHandle handle =
          model.submit(
              GenerationRequest.builder(paused.promptIds())
                  .params(second)
                  .prefixReuse(PrefixReuse.REQUIRED)
                  .build());
      gate.open();
      try (GenerationResult result = handle.await()) {
        check(paused, second, result);
      }
      assertThat(model.metrics().pauses()).isEqualTo(1);
    }
    assertThat(repeats.reusedOwnBlocks).as("chunks behind reused blocks").isPositive();
  }

  /** Holds the executor at a request of its own until the gate is opened. */
  private static Gate holdAtGate(DescribedModel model) {
    Gate gate = new Gate();
    SamplingParams params = SamplingParams.builder().maxTokens(1).logitsProcessor(gate).build();
    model.submit(GenerationRequest.of(new int[] {1}, params));
    gate.awaitEngine();
    return gate;
  }

  /** Short prompts, whose outputs take the blocks away from under the long ones behind them. */
  private static Fixture.Case pick(List<Fixture.Case> cases, int i) {
    return cases.get(i % 4 == 3 ? cases.size() - 1 - i / 4 % 2 : 1);
  }

  private static GenerationRequest request(int i, Fixture.Case one) {
    return GenerationRequest.builder(one.promptIds())
        .params(params(i, one))
        // Alone with its salt, a request finds its own blocks in the cache and no others.
        .cacheSalt("request " + i)
        .prefixReuse(i / 4 % 3 > 0 ? PrefixReuse.REQUIRED : PrefixReuse.AUTO)
        .build();
  }

  private static SamplingParams params(int i, Fixture.Case one) {
    return SamplingParams.builder()
        .temperature(0f)
        .maxTokens(one.greedyIds().length)
        .ignoreEos(true)
        .returnContextLogits(i % 3 < 2)
        .promptLogprobs(i % 3 == 1 ? null : (Integer) 5)
        .build();
  }

  private static void check(Fixture.Case one, SamplingParams params, GenerationResult result) {
    PromptReference reference = PromptReference.of(one.promptIds(), one.logits());
    String what = "a prompt of " + one.promptIds().length + " tokens";
    assertThat(result.outputs().get(0).tokenIds().stream().mapToInt(id -> id).toArray())
        .as(what)
        .isEqualTo(Arrays.copyOf(one.greedyIds(), params.maxTokens()));
    if (params.returnContextLogits()) {
      reference.checkLogits(what, result.contextLogits());
    }
    if (params.promptLogprobs() != null) {
      reference.checkLogprobs(what, result.promptLogprobs(), one.greedyIds()[0], 5);
    }
  }

  private EngineBuilder engine(int maxBatchTokens) {
    return backend()
        .engine()
        .model(Fixture.directory(MODEL))
        .threads(1)
        .maxBatchTokens(maxBatchTokens)
        .maxBatchSize(6)
        .capacityPolicy(CapacityPolicy.MAX_UTILIZATION)
        .kvBlockSize(BLOCK)
        .kvCacheTokens(BLOCKS * BLOCK)
        .integrityChecks(true);
  }
}
