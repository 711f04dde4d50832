package dev.halcyon.engine.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.sampling.SamplingDefaults;
import dev.halcyon.engine.weights.ModelFiles;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The embedded model gives what Hugging Face transformers gives for its weights. */
class DefaultModelTest {

  private static final ModelFiles FILES =
      ModelFiles.resources(ModelFiles.class.getClassLoader(), "dev/halcyon/engine/default-model/");

  /** The reference is rounded to six digits of values below 100. */
  private static final double TOLERANCE = 1e-4;

  private static JsonNode cases() {
    try (InputStream in =
        DefaultModelTest.class.getResourceAsStream("/fixtures/default-model/reference.json")) {
      return new ObjectMapper().readTree(in).get("cases");
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  void logprobsAndGreedyIdsAreThoseOfTransformers() {
    List<JsonNode> cases = new ArrayList<>();
    cases().forEach(cases::add);
    assertThat(cases).hasSize(6).filteredOn(c -> c.has("top5")).hasSize(5);
    List<SequenceRun> runs =
        cases.stream()
            .map(
                c -> new SequenceRun(Fixture.ints(c.get("prompt_ids")), c.get("greedy_ids").size()))
            .toList();
    try (DecoderHarness harness =
        new DecoderHarness(TestBackend.CPU, FILES, ModelConfig.parse(FILES), 512)) {
      harness.run(runs, 50, 16);
    }
    for (int i = 0; i < runs.size(); i++) {
      assertThat(runs.get(i).generated())
          .as("greedy ids of case %d", i)
          .isEqualTo(Fixture.ints(cases.get(i).get("greedy_ids")));
      checkLogprobs(runs.get(i), cases.get(i));
    }
  }

  private static void checkLogprobs(SequenceRun run, JsonNode reference) {
    for (int row = 0; row < run.promptLength; row++) {
      double[] logprobs = logSoftmax(run.logits.get(row));
      // The long prompt of the reference has its own tokens' logprobs alone.
      for (JsonNode entry : reference.path("top5").path(row)) {
        int id = entry.get(0).intValue();
        assertThat(logprobs[id])
            .as("logprob of %d after position %d", id, row)
            .isCloseTo(entry.get(1).doubleValue(), within(TOLERANCE));
      }
      if (row + 1 < run.promptLength) {
        assertThat(logprobs[run.tokens[row + 1]])
            .as("logprob of prompt token %d", row + 1)
            .isCloseTo(
                reference.get("prompt_logprobs").get(row + 1).doubleValue(), within(TOLERANCE));
      }
    }
  }

  private static double[] logSoftmax(float[] logits) {
    double max = Double.NEGATIVE_INFINITY;
    for (float logit : logits) {
      max = Math.max(max, logit);
    }
    double sum = 0;
    for (float logit : logits) {
      sum += Math.exp(logit - max);
    }
    double[] logprobs = new double[logits.length];
    for (int i = 0; i < logits.length; i++) {
      logprobs[i] = logits[i] - max - Math.log(sum);
    }
    return logprobs;
  }

  @Test
  void saysHowItWantsToBeSampled() {
    GenerationDefaults defaults = GenerationDefaults.parse(FILES, ModelConfig.parse(FILES));
    assertThat(defaults)
        .isEqualTo(
            new GenerationDefaults(
                new SamplingDefaults(true, 0.5f, null, 0.95f, null, null), 0, List.of(0)));
  }
}
