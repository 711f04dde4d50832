package dev.halcyon.engine.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.ModelLoadException;
import dev.halcyon.engine.sampling.SamplingDefaults;
import dev.halcyon.engine.weights.ModelFiles;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class GenerationDefaultsTest {

  /** Of 96 tokens; begins with 1 and ends with 2. */
  private final ModelConfig config = Fixture.open("llama2").config("config.json");

  private GenerationDefaults parse(String json) {
    return GenerationDefaults.parse(
        json.getBytes(StandardCharsets.UTF_8), "generation_config.json in test", config);
  }

  @Test
  void readsWhatIsThere() {
    assertThat(
            parse(
                """
                {"do_sample": true, "temperature": 0.5, "top_k": 20, "top_p": 0.75, "min_p": 0.25,
                 "repetition_penalty": 1.5, "bos_token_id": 5, "eos_token_id": [7, 8]}"""))
        .isEqualTo(
            new GenerationDefaults(
                new SamplingDefaults(true, 0.5f, 20, 0.75f, 0.25f, 1.5f), 5, List.of(7, 8)));
  }

  @Test
  void takesIdsFromTheConfigOtherwise(@TempDir Path empty) {
    GenerationDefaults expected = new GenerationDefaults(SamplingDefaults.NONE, 1, List.of(2));
    assertThat(parse("{}")).isEqualTo(expected);
    assertThat(parse("{\"eos_token_id\": null, \"temperature\": null}")).isEqualTo(expected);
    assertThat(GenerationDefaults.parse(ModelFiles.directory(empty), config)).isEqualTo(expected);
    assertThat(parse("{\"eos_token_id\": 9}").endIds()).containsExactly(9);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "temperature | -0.5",
        "temperature | NaN",
        "temperature | 1e300",
        "top_k | -1",
        "top_k | 1.5",
        "top_p | 0",
        "top_p | 1.5",
        "top_p | Infinity",
        "min_p | -0.1",
        "min_p | 2",
        "repetition_penalty | 0",
        "repetition_penalty | NaN",
        "eos_token_id | 96",
        "eos_token_id | -1",
        "do_sample | 1",
      })
  void refusesByName(String key, String value) {
    assertThatThrownBy(() -> parse("{\"" + key + "\": " + value + "}"))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContaining("generation_config.json in test: " + key + " is ");
  }
}
