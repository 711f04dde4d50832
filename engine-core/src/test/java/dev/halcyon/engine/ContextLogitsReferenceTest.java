package dev.halcyon.engine;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.model.Fixture;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.TestInstance.Lifecycle;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Context logits and prompt logprobs of every family and variant are those of Hugging Face
 * transformers, whatever the size of the chunks and whatever else is in the batch.
 */
@Timeout(120)
@TestInstance(Lifecycle.PER_CLASS)
public class ContextLogitsReferenceTest {

  /** What the engines compute on. */
  protected TestBackend backend() {
    return TestBackend.CPU;
  }

  private static final int UNLIMITED = 1024;
  private static final int BLOCK = 8;
  private static final int GENERATED = 12;

  /** What one request wants. */
  private enum Kind {
    FULL,
    COMPACT_0,
    COMPACT_5,
    BOTH_0,
    BOTH_5,
    SAMPLED_BOTH_TWICE,
    PREFILL,
    GENERATION;

    boolean full() {
      return this == FULL || name().contains("BOTH");
    }

    /** The k of its prompt logprobs, or null. */
    Integer k() {
      return switch (this) {
        case COMPACT_0, BOTH_0 -> 0;
        case COMPACT_5, BOTH_5, SAMPLED_BOTH_TWICE -> 5;
        default -> null;
      };
    }

    int samples() {
      return this == SAMPLED_BOTH_TWICE ? 2 : 1;
    }

    SamplingParams params() {
      return SamplingParams.builder()
          .temperature(this == SAMPLED_BOTH_TWICE ? 1f : 0f)
          .seed(5L)
          .n(samples())
          .maxTokens(this == GENERATION ? GENERATED : this == PREFILL ? 1 : 2)
          .ignoreEos(true)
          .returnContextLogits(full())
          .promptLogprobs(k())
          .returnGenerationLogits(full())
          .build();
    }
  }

  private record Asked(Kind kind, Fixture.Case prompt, GenerationHandle handle) {}

  /** A fixture, and the tokens of a step. */
  protected Stream<Arguments> settings() {
    return Fixture.NAMES.stream()
        .flatMap(
            name -> Stream.of(1, 7, 32, 33, 64, UNLIMITED).map(chunk -> Arguments.of(name, chunk)));
  }

  @ParameterizedTest(name = "{0}, {1} tokens a step")
  @MethodSource("settings")
  void rowsAreTheReferences(String name, int chunk) {
    List<Fixture.Case> prompts = Fixture.open(name).cases();
    EngineBuilder builder =
        backend()
            .engine()
            .model(Fixture.directory(name))
            .threads(1)
            .maxBatchTokens(chunk)
            .maxBatchSize(Math.min(chunk, 16))
            .chunkedPrefill(chunk != UNLIMITED)
            .kvBlockSize(BLOCK)
            .kvCacheTokens(2048)
            .integrityChecks(true);
    try (Engine engine = builder.build()) {
      for (Fixture.Case prompt : prompts) {
        for (Kind kind : List.of(Kind.BOTH_5, Kind.COMPACT_0, Kind.FULL)) {
          check("alone", submit(engine, kind, prompt, 0));
        }
      }
      checkMixed(engine, prompts, chunk);
    }
  }

  /** All kinds over all prompts at once, in some order, with some priorities. */
  private static void checkMixed(Engine engine, List<Fixture.Case> prompts, int chunk) {
    Random random = new Random(chunk);
    List<Runnable> submissions = new ArrayList<>();
    List<Asked> asked = new ArrayList<>();
    for (Fixture.Case prompt : prompts) {
      for (Kind kind : Kind.values()) {
        if (kind.samples() <= chunk) {
          submissions.add(
              () -> asked.add(submit(engine, kind, prompt, random.nextInt(8) == 0 ? 1 : 0)));
        }
      }
    }
    Collections.shuffle(submissions, random);
    Gate gate = new Gate();
    GenerationHandle before = submitGate(engine, gate, prompts.get(0).promptIds());
    submissions.forEach(Runnable::run);
    gate.open();
    asked.forEach(one -> check("mixed", one));
    before.await();
  }

  /** A request that generates for a while once the gate is open. */
  private static GenerationHandle submitGate(Engine engine, Gate gate, int[] prompt) {
    SamplingParams params =
        SamplingParams.builder().logitsProcessor(gate).maxTokens(40).ignoreEos(true).build();
    GenerationHandle handle =
        engine.submit(GenerationRequest.builder(prompt).params(params).priority(2).build());
    gate.awaitEngine();
    return handle;
  }

  private static Asked submit(Engine engine, Kind kind, Fixture.Case prompt, int priority) {
    GenerationRequest request =
        GenerationRequest.builder(prompt.promptIds())
            .params(kind.params())
            .priority(priority)
            .build();
    return new Asked(kind, prompt, engine.submit(request));
  }

  private static void check(String how, Asked asked) {
    Fixture.Case prompt = asked.prompt();
    String what = how + ", " + asked.kind() + " of " + prompt.promptIds().length + " tokens";
    PromptReference reference = PromptReference.of(prompt.promptIds(), prompt.logits());
    try (GenerationResult result = asked.handle().await()) {
      assertThat(result.outputs()).as(what).hasSize(asked.kind().samples());
      List<Integer> tokens = result.outputs().get(0).tokenIds();
      if (asked.kind() != Kind.SAMPLED_BOTH_TWICE) {
        assertThat(tokens)
            .as(what)
            .isEqualTo(
                Arrays.stream(prompt.greedyIds())
                    .limit(asked.kind().params().maxTokens())
                    .boxed()
                    .toList());
      }
      if (asked.kind().full()) {
        reference.checkLogits(what, result.contextLogits());
        checkGenerationLogits(what, result);
      } else {
        assertThat(result.contextLogits()).as(what).isNull();
      }
      if (asked.kind().k() != null) {
        checkLogprobs(what, asked, reference, result);
      } else {
        assertThat(result.promptLogprobs()).as(what).isNull();
        assertThat(result.promptLogprobsWithLeadingNull()).as(what).isNull();
      }
    }
  }

  /** The row of the last prompt position is where the first token comes from. */
  private static void checkGenerationLogits(String what, GenerationResult result) {
    LogitsView rows = result.contextLogits();
    for (GenerationOutput output : result.outputs()) {
      assertThat(output.generationLogits().row(0)).as(what).isEqualTo(rows.row(rows.rows() - 1));
    }
  }

  private static void checkLogprobs(
      String what, Asked asked, PromptReference reference, GenerationResult result) {
    int first = result.outputs().get(0).tokenIds().get(0);
    int k = asked.kind().k();
    List<TokenLogprobs> logprobs = result.promptLogprobs();
    reference.checkLogprobs(what, logprobs, first, k);
    if (asked.kind().full()) {
      PromptReference.of(reference.prompt(), result.contextLogits())
          .checkLogprobs(what + ", by its own logits", logprobs, first, k);
    }
    List<TokenLogprobs> shifted = result.promptLogprobsWithLeadingNull();
    assertThat(shifted).as(what).hasSameSizeAs(logprobs);
    assertThat(shifted.get(0)).as(what).isNull();
    assertThat(shifted.subList(1, shifted.size()))
        .as(what)
        .isEqualTo(logprobs.subList(0, logprobs.size() - 1));
  }
}
