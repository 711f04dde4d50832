package dev.halcyon.engine.disagg;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.CapacityPolicy;
import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.PrefixReuse;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.TinyCheckpoint;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Ends, text, caches and batches of split requests, against one engine. A test for a way between
 * engines, or for another backend, extends this.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
public abstract class SplitContract {

  private Path model;
  private SplitRig rig;

  /** Opens a way between engines. */
  protected abstract Ends ends();

  /** What the engines compute on. */
  protected TestBackend backend() {
    return TestBackend.CPU;
  }

  private SplitRig rig(Path path, Ends ends, UnaryOperator<EngineBuilder> both) {
    return SplitRig.of(backend(), path, ends, both, b -> b, b -> b);
  }

  @BeforeAll
  void open(@TempDir Path directory) {
    model = TinyCheckpoint.write(directory);
    rig = rig(model, ends(), b -> b);
  }

  @AfterAll
  void close() {
    rig.assertClean();
    rig.close();
  }

  @Test
  void oneTokenIsTheContextSidesAlone() {
    GenerationRequest request = request(1, all().maxTokens(1));
    Outcome split = rig.split(request);
    assertThat(split.outputs().get(0).finishReason()).isEqualTo(FinishReason.LENGTH);
    assertThat(split.outputs().get(0).logits()).hasSize(1);
    rig.assertSame(split, rig.whole(request));
    try (GenerationResult result = rig.submitContext(request).await()) {
      assertThat(result.disaggParams()).isNull();
    }
  }

  @Test
  void aFirstTokenThatStopsIsTheContextSidesAlone() {
    int first = rig.whole(request(2, all())).outputs().get(0).ids().get(0);
    for (boolean include : new boolean[] {false, true}) {
      GenerationRequest request =
          request(2, all().stopTokenIds(Set.of(first)).includeStopInOutput(include));
      Outcome split = rig.split(request);
      assertThat(split.outputs().get(0).finishReason()).isEqualTo(FinishReason.STOP);
      rig.assertSame(split, rig.whole(request));
    }
  }

  @Test
  void twoTokens() {
    GenerationRequest request = request(3, all().maxTokens(2));
    Outcome split = rig.split(request);
    assertThat(split.outputs().get(0).logits()).hasSize(2);
    rig.assertSame(split, rig.whole(request));
  }

  @Test
  void aSecondTokenThatStops() {
    for (int seed = 10; ; seed++) {
      List<Integer> ids = rig.whole(request(seed, all())).outputs().get(0).ids();
      if (!ids.get(0).equals(ids.get(1))) {
        GenerationRequest request = request(seed, all().stopTokenIds(Set.of(ids.get(1))));
        Outcome split = rig.split(request);
        assertThat(split.outputs().get(0).ids()).hasSize(1);
        rig.assertSame(split, rig.whole(request));
        return;
      }
    }
  }

  @Test
  void samplesOfWhichOneStopsAtOnce() {
    for (int seed = 20; ; seed++) {
      SamplingParams.Builder three = all().n(3).temperature(1.5).seed((long) seed);
      List<Integer> firsts = new ArrayList<>();
      rig.whole(request(seed, three)).outputs().forEach(o -> firsts.add(o.ids().get(0)));
      if (Set.copyOf(firsts).size() == 3) {
        GenerationRequest request = request(seed, three.stopTokenIds(Set.of(firsts.get(1))));
        Outcome split = rig.split(request);
        assertThat(split.outputs().get(1).ids()).isEmpty();
        assertThat(split.outputs().get(0).ids()).hasSizeGreaterThan(1);
        rig.assertSame(split, rig.whole(request));
        return;
      }
    }
  }

  @Test
  void aFirstTokenThatIsPartOfACharacter() {
    int found = 0;
    for (int seed = 100; found < 3; seed++) {
      GenerationRequest request = request(seed, all().maxTokens(6));
      Outcome whole = rig.whole(request);
      if (rig.whole
          .detokenize(new int[] {whole.outputs().get(0).ids().get(0)})
          .contains("\ufffd")) {
        found++;
        rig.assertSame(rig.split(request), whole);
      }
    }
  }

  @ParameterizedTest
  @CsvSource({"true", "false"})
  void aStopStringOverTheFirstTwoTokens(boolean include) {
    try (SplitRig story = rig(null, ends(), b -> b)) {
      SamplingParams.Builder params = all().maxTokens(12).temperature(0.0);
      String prompt = "Once upon a time";
      GenerationRequest plain = GenerationRequest.of(prompt, params.build());
      Outcome whole = story.whole(plain);
      story.assertSame(story.split(plain), whole);
      List<Integer> ids = whole.outputs().get(0).ids();
      String first = story.whole.detokenize(new int[] {ids.get(0)});
      String two = story.whole.detokenize(new int[] {ids.get(0), ids.get(1)});
      assertThat(two.length()).isGreaterThan(first.length());
      String stop = two.substring(first.length() - 1, first.length() + 1);
      GenerationRequest request =
          GenerationRequest.of(
              prompt, params.stop(List.of(stop)).includeStopInOutput(include).build());
      Outcome split = story.split(request);
      assertThat(split.outputs().get(0).stopString()).isEqualTo(stop);
      story.assertSame(split, story.whole(request));
      // One that begins with the first token and never comes: held back, then shown.
      String never = two.substring(first.length() - 1) + "\u0000";
      story.assertSame(GenerationRequest.of(prompt, params.stop(List.of(never)).build()));
      story.assertClean();
    }
  }

  @Test
  void whatElseCanBeAskedFor() {
    rig.assertSame(request(30, all().simpleLogprobs(true).logprobs(0).promptLogprobs(0)));
    rig.assertSame(request(31, SamplingParams.builder().maxTokens(7)));
    rig.assertSame(request(32, all().minTokens(4).ignoreEos(false)));
    rig.assertSame(request(33, all().truncatePromptTokens(9)));
    rig.assertSame(
        request(34, all().temperature(0.8).seed(3L).presencePenalty(0.7).frequencyPenalty(0.4)));
    rig.assertSame(request(35, all().detokenize(false)));
    rig.assertSame(
        request(36, all()).toBuilder().cacheSalt("salt").prefixReuse(PrefixReuse.NEVER).build());
  }

  @Test
  void withoutASeedTheDrawsGoOn() {
    // The generation side takes the seed that the context side drew with.
    GenerationRequest request = request(37, all().temperature(1.0).maxTokens(20));
    try (GenerationResult first = rig.submitContext(request).await()) {
      long seed = first.disaggParams().seed();
      Outcome split =
          Outcome.of(
              rig.decode.submit(request.toBuilder().disaggParams(first.disaggParams()).build()));
      rig.assertSame(
          split,
          rig.whole(
              GenerationRequest.of(
                  request.promptIds(), request.params().toBuilder().seed(seed).build())));
    }
  }

  @ParameterizedTest
  @CsvSource({"16,4", "4,16", "32,2", "1,64"})
  void blocksOfDifferentSizes(int prefillBlock, int decodeBlock) {
    try (SplitRig other =
        SplitRig.of(
            backend(),
            model,
            ends(),
            b -> b,
            b -> b.kvBlockSize(prefillBlock),
            b -> b.kvBlockSize(decodeBlock))) {
      for (int seed = 40; seed < 43; seed++) {
        other.assertSame(request(seed, all().n(3).temperature(1.0).seed(5L)));
      }
      other.assertClean();
    }
  }

  @Test
  void contextsInChunks() {
    UnaryOperator<EngineBuilder> chunks = b -> b.maxBatchTokens(7);
    try (SplitRig other = rig(model, ends(), chunks)) {
      for (SamplingParams params : SplitEqualityTest.everything()) {
        other.assertSame(request(50, params.toBuilder()));
      }
      other.assertClean();
    }
  }

  @Test
  void prefixReuseOnEitherSide() {
    Ends ends = ends();
    WatchedTransport context = new WatchedTransport(ends.context());
    WatchedTransport generation = new WatchedTransport(ends.generation());
    Ends watched = new Ends(context, generation, ends.openTransfers());
    try (SplitRig other = rig(model, watched, b -> b)) {
      // 61 tokens: blocks of 16 leave 48 that are whole and short of the last token.
      int[] prompt = new Random(60).ints(61, 1, TinyCheckpoint.VOCAB).toArray();
      SamplingParams params =
          SamplingParams.builder().maxTokens(8).logprobs(2).returnGenerationLogits(true).build();
      GenerationRequest request = GenerationRequest.of(prompt, params);
      other.assertSame(request);
      Outcome again = other.split(request);
      other.assertSame(again, other.whole(request));
      assertThat(again.usage().cachedPromptTokens()).isEqualTo(48);
      assertThat(generation.firstTokens).containsExactly(0, 48);
      // On the generation side alone: the context side computes rows, and reads no cache.
      other.assertSame(GenerationRequest.of(prompt, all().build()));
      // On the context side alone.
      GenerationRequest salted = request.toBuilder().cacheSalt("s").build();
      other.assertSame(salted);
      other.assertSame(salted.toBuilder().prefixReuse(PrefixReuse.AUTO).build());
      assertThat(generation.firstTokens).containsExactly(0, 48, 48, 0, 48);
      assertThat(context.sourceEnds).containsOnly("done");
      other.assertClean();
    }
  }

  /**
   * Of a prompt of 61 tokens, 32 are there from another one: whatever is drawn, whoever has them,
   * and whoever hears of the request first.
   */
  @ParameterizedTest
  @CsvSource({"PREFILL,7", "DECODE,7", "BOTH,7", "PREFILL,64", "DECODE,64", "BOTH,64"})
  void beginningsInCaches(PrefixAt cached, int chunk) {
    Ends ends = ends();
    WatchedTransport fetches = new WatchedTransport(ends.generation());
    Ends watched = new Ends(ends.context(), fetches, ends.openTransfers());
    try (SplitRig other = rig(model, watched, b -> b.maxBatchTokens(chunk))) {
      int seed = 60;
      for (ScheduleStyle style : ScheduleStyle.values()) {
        for (SamplingParams params : withAndWithoutRows()) {
          int[] prompt = new Random(seed++).ints(61, 1, TinyCheckpoint.VOCAB).toArray();
          GenerationRequest request = GenerationRequest.of(prompt, params);
          other.cache(Arrays.copyOf(prompt, 40), cached);
          Outcome split = other.split(request, style);
          other.assertSame(split, other.whole(request));
          boolean rows = params.returnContextLogits();
          assertThat(split.usage().cachedPromptTokens())
              .isEqualTo(cached.prefill() && !rows ? 32 : 0);
          assertThat(fetches.firstTokens.get(fetches.firstTokens.size() - 1))
              .isEqualTo(cached.decode() ? 32 : 0);
        }
      }
      assertThat(fetches.firstTokens).hasSize(seed - 60);
      other.assertClean();
    }
  }

  /** No cache is read for a prompt whose rows are wanted, but where it is continued. */
  private static List<SamplingParams> withAndWithoutRows() {
    List<SamplingParams> all = new ArrayList<>(SplitEqualityTest.everything());
    for (SamplingParams each : SplitEqualityTest.everything()) {
      all.add(each.toBuilder().promptLogprobs(null).returnContextLogits(false).build());
    }
    return all;
  }

  @ParameterizedTest
  @CsvSource({"GUARANTEED_NO_EVICT", "MAX_UTILIZATION"})
  void manyAtOnceInLittleRoom(CapacityPolicy policy) {
    // 12 blocks of 8 tokens on each side; a request may need up to 6.
    UnaryOperator<EngineBuilder> little =
        b -> b.capacityPolicy(policy).kvBlockSize(8).kvCacheTokens(96);
    try (SplitRig other = rig(model, ends(), little)) {
      List<GenerationRequest> requests = new ArrayList<>();
      List<Outcome> expected = new ArrayList<>();
      List<GenerationHandle> contexts = new ArrayList<>();
      for (int i = 0; i < 24; i++) {
        GenerationRequest request =
            GenerationRequest.of(
                new Random(i).ints(5 + i % 20, 1, TinyCheckpoint.VOCAB).toArray(),
                all().maxTokens(4 + i % 16).temperature(i % 2).seed((long) i).build());
        requests.add(request);
        expected.add(other.whole(request));
      }
      requests.forEach(request -> contexts.add(other.submitContext(request)));
      List<GenerationHandle> rest = new ArrayList<>();
      for (int i = 0; i < requests.size(); i++) {
        // Prompts that wait to be fetched fill the cache: those behind them wait in turn.
        GenerationResult first = contexts.get(i).await();
        rest.add(
            other.decode.submit(
                requests.get(i).toBuilder().disaggParams(first.disaggParams()).build()));
      }
      for (int i = 0; i < requests.size(); i++) {
        other.assertSame(Outcome.of(rest.get(i)), expected.get(i));
      }
      other.assertClean();
    }
  }

  static GenerationRequest request(int seed, SamplingParams.Builder params) {
    int[] prompt = new Random(seed).ints(21, 1, TinyCheckpoint.VOCAB).toArray();
    return GenerationRequest.of(prompt, params.build());
  }

  private static SamplingParams.Builder all() {
    return SamplingParams.builder()
        .maxTokens(10)
        .ignoreEos(true)
        .logprobs(2)
        .promptLogprobs(1)
        .returnContextLogits(true)
        .returnGenerationLogits(true);
  }
}
