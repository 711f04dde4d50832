package dev.halcyon.engine.disagg;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.disagg.transfer.NeedsUcx;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** A request that is split gives, bit by bit, what one engine gives. */
class SplitEqualityTest {

  static Stream<Path> families() throws IOException {
    try (Stream<Path> models = Files.list(TinyCheckpoint.fixture("models"))) {
      return models.filter(Files::isDirectory).sorted().toList().stream();
    }
  }

  @ParameterizedTest
  @MethodSource("families")
  void everyFamilyWithinAProcess(Path model) {
    requireSame(model, Ends.inProcess());
  }

  @ParameterizedTest
  @MethodSource("families")
  void everyFamilyOverTcp(Path model) {
    requireSame(model, Ends.tcp());
  }

  @ParameterizedTest
  @MethodSource("families")
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
    SamplingParams three = seeded.toBuilder().n(3).build();
    assertThat(three.n()).isEqualTo(3);
    return List.of(greedy, seeded, three);
  }
}
