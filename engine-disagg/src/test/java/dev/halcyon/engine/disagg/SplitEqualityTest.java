package dev.halcyon.engine.disagg;

import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.disagg.transfer.NeedsUcx;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** A request that is split gives, bit by bit, what one engine gives. */
class SplitEqualityTest {

  @ParameterizedTest
  @MethodSource("dev.halcyon.engine.disagg.TinyFamilies#all")
  void everyFamilyWithinAProcess(Path model) {
    requireSame(model, Ends.inProcess());
  }

  @ParameterizedTest
  @MethodSource("dev.halcyon.engine.disagg.TinyFamilies#all")
  void everyFamilyOverTcp(Path model) {
    requireSame(model, Ends.tcp());
  }

  @ParameterizedTest
  @MethodSource("dev.halcyon.engine.disagg.TinyFamilies#all")
  @ExtendWith(NeedsUcx.class)
  void everyFamilyOverUcx(Path model) {
    requireSame(model, Ends.ucx());
  }

  private static void requireSame(Path model, Ends ends) {
    try (SplitRig rig = SplitRig.of(model, ends, UnaryOperator.identity())) {
      int[] prompt = new Random(1).ints(37, 0, rig.whole.vocabSize()).toArray();
      for (SamplingParams params : everything()) {
        rig.assertSame(GenerationRequest.of(prompt, params));
      }
      rig.assertClean();
    }
  }

  static List<SamplingParams> everything() {
    SamplingParams.Builder all =
        SamplingParams.builder()
            .maxTokens(9)
            .ignoreEos(true)
            .detokenize(false)
            .logprobs(3)
            .promptLogprobs(2)
            .returnContextLogits(true)
            .returnGenerationLogits(true);
    SamplingParams greedy = all.build();
    SamplingParams seeded =
        greedy.toBuilder().temperature(0.9).topP(0.95).repetitionPenalty(1.2).seed(11L).build();
    return List.of(
        greedy, greedy.toBuilder().n(3).build(), seeded, seeded.toBuilder().n(3).build());
  }
}
