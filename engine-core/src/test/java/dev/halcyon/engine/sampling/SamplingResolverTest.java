package dev.halcyon.engine.sampling;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.SamplingParams;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

class SamplingResolverTest {

  private static final SamplingDefaults SAMPLES =
      new SamplingDefaults(true, 0.6f, 20, 0.95f, 0.1f, 1.1f);
  private static final SamplingDefaults GREEDY =
      new SamplingDefaults(false, 0.6f, 20, 0.95f, 0.1f, 1.1f);

  @Test
  void nothingSetIsGreedyUnlessTheCheckpointSamples() {
    SamplingSettings none = resolve(SamplingParams.builder(), SamplingDefaults.NONE);
    assertThat(none.greedy()).isTrue();
    assertThat(none.repetitionPenalty()).isEqualTo(1);
    SamplingSettings greedy = resolve(SamplingParams.builder(), GREEDY);
    assertThat(greedy.greedy()).isTrue();
    assertThat(greedy.repetitionPenalty()).isEqualTo(1.1f);
    assertFilters(resolve(SamplingParams.builder(), SAMPLES), 0.6f, 20, 0.95f, 0.1f);
    assertFilters(
        resolve(SamplingParams.builder(), new SamplingDefaults(true, null, null, null, null, null)),
        1,
        0,
        1,
        0);
  }

  @Test
  void anythingSetSamplesAndTheRestComesFromACheckpointThatSamples() {
    assertFilters(resolve(SamplingParams.builder().topP(0.5), GREEDY), 1, 0, 0.5f, 0);
    assertFilters(resolve(SamplingParams.builder().topP(0.5), SAMPLES), 0.6f, 20, 0.5f, 0.1f);
    assertFilters(resolve(SamplingParams.builder().topK(0), SAMPLES), 0.6f, 0, 0.95f, 0.1f);
    assertFilters(resolve(SamplingParams.builder().minP(0), GREEDY), 1, 0, 1, 0);
    assertFilters(
        resolve(SamplingParams.builder().temperature(0.9).minP(0.2), SAMPLES),
        0.9f,
        20,
        0.95f,
        0.2f);
  }

  @Test
  void temperatureZeroAndTopKOneAreGreedy() {
    assertThat(resolve(SamplingParams.builder().temperature(0), SAMPLES).greedy()).isTrue();
    assertThat(resolve(SamplingParams.builder().topK(1), SAMPLES).greedy()).isTrue();
    assertThat(resolve(SamplingParams.builder().topK(1).temperature(2), GREEDY).greedy()).isTrue();
  }

  @Test
  void penaltiesOfTheRequestWin() {
    SamplingSettings settings =
        resolve(
            SamplingParams.builder()
                .repetitionPenalty(1)
                .presencePenalty(-0.5)
                .frequencyPenalty(0.25)
                .logitBias(Map.of(3, 2f)),
            SAMPLES);
    assertThat(settings.repetitionPenalty()).isEqualTo(1);
    assertThat(settings.presencePenalty()).isEqualTo(-0.5f);
    assertThat(settings.frequencyPenalty()).isEqualTo(0.25f);
    assertThat(settings.logitBias()).isEqualTo(Map.of(3, 2f));
  }

  @Test
  void endIdsAreTheCheckpointsUnlessIgnoredAndTheRequestsStopIds() {
    SamplingParams.Builder params = SamplingParams.builder().minTokens(4).stopTokenIds(List.of(5));
    assertThat(resolve(params, GREEDY).endIds()).isEqualTo(Set.of(2, 3, 5));
    assertThat(resolve(params.ignoreEos(true), GREEDY).endIds()).isEqualTo(Set.of(5));
    assertThat(resolve(params, GREEDY).minTokens()).isEqualTo(4);
  }

  @Test
  void defaultsThatCanNotBeSampledWithAreRefusedByName() {
    assertThatThrownBy(() -> new SamplingDefaults(true, Float.NaN, null, null, null, null))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("temperature is NaN");
    assertThatThrownBy(() -> new SamplingDefaults(true, null, null, 0f, null, null))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("topP is 0.0");
    assertThatThrownBy(() -> new SamplingDefaults(true, null, -1, null, null, null))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("topK is -1");
  }

  private static SamplingSettings resolve(
      SamplingParams.Builder params, SamplingDefaults defaults) {
    return SamplingResolver.resolve(params.build(), defaults, Set.of(2, 3));
  }

  private static void assertFilters(
      SamplingSettings settings, float temperature, int topK, float topP, float minP) {
    assertThat(settings.temperature()).isEqualTo(temperature);
    assertThat(settings.topK()).isEqualTo(topK);
    assertThat(settings.topP()).isEqualTo(topP);
    assertThat(settings.minP()).isEqualTo(minP);
    assertThat(settings.greedy()).isFalse();
  }
}
