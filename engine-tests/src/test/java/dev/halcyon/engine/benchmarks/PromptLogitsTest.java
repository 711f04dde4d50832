package dev.halcyon.engine.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.SamplingParams;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

class PromptLogitsTest {

  private static final int VOCAB = 512;

  @TempDir Path folder;

  /** The row of a position is what a prompt that ends there says of its next token. */
  @Test
  void theFileHasARowForEachTokenThatWasFed() throws IOException {
    Path model = RandomCheckpoint.inCache(folder, new ModelShape(64, 128, 2, 4, 2, VOCAB), 3);
    Path prompts = Files.writeString(folder.resolve("prompts.json"), "[[5, 6, 7], [300, 301]]");
    Path out = folder.resolve("ours.bin");
    int exit =
        new CommandLine(new PromptLogits())
            .setCaseInsensitiveEnumValuesAllowed(true)
            .execute(
                "--model=" + model,
                "--prompts=" + prompts,
                "--out=" + out,
                "--backend=cpu",
                "--max-tokens=4",
                "--chunk=16");
    assertThat(exit).isZero();
    JsonNode cases = new ObjectMapper().readTree(folder.resolve("ours.json").toFile()).get("cases");
    FloatBuffer rows =
        ByteBuffer.wrap(Files.readAllBytes(out)).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer();
    // 3 + 3 rows of the first prompt and its four tokens, 2 + 3 of the second.
    assertThat(rows.remaining()).isEqualTo((6 + 5) * VOCAB);
    assertThat(cases.get(0).get("prompt_logprobs")).hasSize(3);
    assertThat(cases.get(1).get("generated")).hasSize(4);

    int[] fed = {300, 301, cases.get(1).get("generated").get(0).intValue()};
    SamplingParams next =
        SamplingParams.builder().temperature(0f).maxTokens(1).returnGenerationLogits(true).build();
    try (Engine engine = Engine.builder().model(model).backend(BackendChoice.CPU).build();
        GenerationResult result = engine.generate(GenerationRequest.of(fed, next))) {
      FloatBuffer expected = result.outputs().get(0).generationLogits().row(0);
      for (int i = 0; i < VOCAB; i++) {
        assertThat(rows.get((6 + 2) * VOCAB + i)).isCloseTo(expected.get(i), within(1e-4f));
      }
    }
  }
}
