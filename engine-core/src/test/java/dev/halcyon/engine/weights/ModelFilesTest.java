package dev.halcyon.engine.weights;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class ModelFilesTest {

  private static final String FIXTURE = "fixtures/models/llama-bf16";

  private final ModelFiles resources =
      ModelFiles.resources(getClass().getClassLoader(), "/" + FIXTURE);

  @Test
  void resourcesAndDirectoryHoldTheSame() throws Exception {
    ModelFiles directory =
        ModelFiles.directory(
            Path.of(getClass().getClassLoader().getResource(FIXTURE + "/config.json").toURI())
                .getParent());

    assertThat(resources.names())
        .containsExactly("config.json", "generation_config.json", "model.safetensors")
        .isSubsetOf(directory.names());
    assertThat(resources.read("config.json")).contains(directory.read("config.json").orElseThrow());
    assertThat(resources.size("model.safetensors")).isEqualTo(directory.size("model.safetensors"));
    assertThat(Checkpoint.open(resources).names()).isEqualTo(Checkpoint.open(directory).names());
    for (String name : Checkpoint.open(directory).names()) {
      assertThat(Checkpoint.open(resources).tensor(name))
          .as(name)
          .isEqualTo(Checkpoint.open(directory).tensor(name));
    }
  }

  @Test
  void aResourceIsReadOnceAndCanNotBeWritten() throws IOException {
    ByteBuffer first = resources.map("model.safetensors", 0, 8);

    assertThat(first.isDirect()).isTrue();
    assertThat(first.isReadOnly()).isTrue();
    assertThat(resources.map("model.safetensors", 8, 1).get(0)).isEqualTo((byte) '{');
    assertThatThrownBy(() -> resources.map("model.safetensors", 1 << 20, 8))
        .isInstanceOf(IOException.class);
  }

  @Test
  void whatIsNotThereIsSaidSo() throws IOException {
    assertThat(resources.has("tokenizer.json")).isFalse();
    assertThat(resources.read("tokenizer.json")).isEmpty();
    assertThatThrownBy(() -> resources.size("tokenizer.json"))
        .isInstanceOf(IOException.class)
        .hasMessageContaining(FIXTURE + "/tokenizer.json");
    assertThatThrownBy(() -> resources.read("../qwen2/config.json"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("name");
  }
}
