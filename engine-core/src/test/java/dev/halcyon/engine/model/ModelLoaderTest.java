package dev.halcyon.engine.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.ModelLoadException;
import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import dev.halcyon.engine.model.CheckpointEditor.Tensor;
import dev.halcyon.engine.weights.Checkpoint;
import dev.halcyon.engine.weights.LoadProgress;
import dev.halcyon.engine.weights.ModelFiles;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ModelLoaderTest {

  private static final DecoderOptions OPTIONS = new DecoderOptions(8, 64, 4);
  private static final String UP = "model.layers.1.mlp.up_proj.weight";

  @TempDir Path directory;

  private static Decoder load(String fixture, FailingBackend backend) {
    Fixture opened = Fixture.open(fixture);
    return ModelLoader.load(
        Checkpoint.open(opened.files()),
        opened.config("config.json"),
        backend,
        OPTIONS,
        LoadProgress.NONE);
  }

  /** Loads changed weights of the llama2 fixture; nothing may stay behind. */
  private void refuses(CheckpointEditor editor, String... parts) {
    editor.write(directory.resolve("model.safetensors"));
    FailingBackend backend = new FailingBackend(-1);
    ModelConfig config = Fixture.open("llama2").config("config.json");
    ModelFiles files = ModelFiles.directory(directory);
    assertThatThrownBy(
            () ->
                ModelLoader.load(
                    Checkpoint.open(files), config, backend, OPTIONS, LoadProgress.NONE))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContainingAll(parts);
    assertThat(backend.allocations()).as("loaded before the check").isZero();
  }

  @ParameterizedTest
  // Untied; tied; with all biases; with head norms; several files; post norms; no norm before the
  // feed-forward layer, nor a rotation in every layer.
  @ValueSource(
      strings = {
        "llama2",
        "llama3-gqa-tied",
        "llama-bias",
        "qwen3",
        "llama-sharded",
        "gemma3",
        "cohere2"
      })
  void runningOutOfMemoryAnywhereLeavesNothingBehind(String fixture) {
    FailingBackend whole = new FailingBackend(-1);
    load(fixture, whole).close();
    int allocations = whole.allocations();
    assertThat(whole.used()).isZero();
    // Embedding and final norm, at least 6 matrices in each of 2 layers, rope, 5 + 2 buffers.
    assertThat(allocations).isGreaterThanOrEqualTo(2 + 2 * 6 + 1 + 5 + 2);

    for (int n = 0; n < allocations; n++) {
      FailingBackend backend = new FailingBackend(n);
      assertThatThrownBy(() -> load(fixture, backend))
          .isInstanceOf(OutOfDeviceMemoryException.class);
      assertThat(backend.allocations()).isEqualTo(n + 1);
      assertThat(backend.used()).as("after failing at allocation %d", n).isZero();
      assertThat(backend.closedTwice()).isZero();
    }
  }

  @Test
  void workspaceIsWhatWasForetold() {
    FailingBackend backend = new FailingBackend(-1);
    ModelConfig config = Fixture.open("llama2").config("config.json");
    long[] weights = {0};
    try (Decoder decoder =
        ModelLoader.load(
            Checkpoint.open(Fixture.open("llama2").files()),
            config,
            backend,
            OPTIONS,
            (done, total) -> weights[0] = total)) {
      assertThat(backend.used() - weights[0])
          .isEqualTo(Decoder.workspaceBytes(config, OPTIONS, backend))
          // 4 bytes * (64 positions of 8; 8 rows of 3 * 32, 112 and 56; 4 rows of 32 and 96).
          .isEqualTo(4 * (64 * 8 + 8 * (3 * 32 + 112 + 56) + 4 * (32 + 96)));
    }
    assertThat(backend.used()).isZero();
  }

  @ParameterizedTest
  // sqrt(40) = 6.3246 lies between 202 and 203 steps of 1/32, which is BF16's from 4 to 8.
  @CsvSource({"F32, 6.3245554", "BF16, 6.3125"})
  void embeddingScaleIsOfTheTypeOfActivations(DType type, float expected) {
    FailingBackend backend = new FailingBackend(-1, type);
    Batch one =
        new Batch(
            1,
            new int[1],
            new int[1],
            new int[1],
            1,
            new int[] {0, 1},
            new int[] {1},
            new int[][] {{0}});
    try (Decoder decoder = load("gemma2", backend)) {
      assertThatThrownBy(() -> decoder.forward(() -> one, null, layer -> {}))
          .isInstanceOf(UnsupportedOperationException.class);
    }
    assertThat(backend.embeddingScale()).isEqualTo(expected);
  }

  @Test
  void closingTwiceIsHarmless() {
    FailingBackend backend = new FailingBackend(-1);
    Decoder decoder = load("llama2", backend);
    decoder.close();
    decoder.close();
    assertThat(backend.used()).isZero();
    assertThat(backend.closedTwice()).isZero();
  }

  @Test
  void showsProgressToTheLastByte() {
    Fixture fixture = Fixture.open("llama2");
    List<Long> seen = new ArrayList<>();
    List<Long> totals = new ArrayList<>();
    ModelLoader.load(
            Checkpoint.open(fixture.files()),
            fixture.config("config.json"),
            new FailingBackend(-1),
            OPTIONS,
            (done, total) -> {
              seen.add(done);
              totals.add(total);
            })
        .close();

    // 4 bytes * (2 * 96 * 32 embedding and head, 2 layers of 4 * 32 * 32 attention, 3 * 32 * 56
    // feed-forward and 2 * 32 norms, 32 final norm).
    long expected = 4L * (2 * 96 * 32 + 2 * (4 * 32 * 32 + 3 * 32 * 56 + 2 * 32) + 32);
    assertThat(totals).containsOnly(expected);
    assertThat(seen).isSorted().startsWith(0L).endsWith(expected);
    assertThat(seen).hasSizeGreaterThan(10);
  }

  @Test
  void aListenerThatThrowsLeavesNothingBehind() {
    Fixture fixture = Fixture.open("llama2");
    FailingBackend backend = new FailingBackend(-1);
    assertThatThrownBy(
            () ->
                ModelLoader.load(
                    Checkpoint.open(fixture.files()),
                    fixture.config("config.json"),
                    backend,
                    OPTIONS,
                    (done, total) -> {
                      if (done > total / 2) {
                        throw new IllegalStateException("enough");
                      }
                    }))
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("enough");
    assertThat(backend.used()).isZero();
  }

  @Test
  void sequencesEndWhereModelOrCallerSay() {
    ModelConfig config = Fixture.open("llama2").config("config.json");
    assertThat(Decoder.maxSequenceLength(config, new DecoderOptions(8, 64, 4))).isEqualTo(64);
    assertThat(Decoder.maxSequenceLength(config, new DecoderOptions(8, 4096, 4))).isEqualTo(128);
    try (Decoder decoder = load("llama2", new FailingBackend(-1))) {
      assertThat(decoder.maxSequenceLength()).isEqualTo(64);
      assertThat(decoder.maxBatchTokens()).isEqualTo(8);
      assertThat(decoder.head().maxRows()).isEqualTo(4);
      assertThat(decoder.head().vocabSize()).isEqualTo(96);
    }
  }

  @Test
  void refusesRowsBeyondItsBuffers() {
    try (Decoder decoder = load("llama2", new FailingBackend(-1))) {
      for (int rows : new int[] {0, 9}) {
        Batch batch = new Batch(rows, null, null, null, 0, null, null, null);
        assertThatThrownBy(() -> decoder.forward(() -> batch, null, layer -> {}))
            .isInstanceOf(IllegalArgumentException.class)
            .hasMessage("batch must have 1 to 8 rows, not " + rows);
      }
      for (int count : new int[] {0, 5}) {
        assertThatThrownBy(() -> decoder.head().projectSamplingRows(null, new int[8], count))
            .isInstanceOf(IllegalArgumentException.class)
            .hasMessage("count must be 1 to 4, not " + count);
      }
    }
    assertThatThrownBy(() -> new DecoderOptions(0, 1, 1)).hasMessageContaining("maxBatchTokens");
    assertThatThrownBy(() -> new DecoderOptions(1, -1, 1))
        .hasMessageContaining("maxSequenceLength");
    assertThatThrownBy(() -> new DecoderOptions(1, 1, 0)).hasMessageContaining("maxLogitRows");
  }

  @Test
  void toleratesTensorsThatNothingReads() {
    CheckpointEditor editor = CheckpointEditor.of("llama2");
    editor.tensors.put(
        "model.layers.0.self_attn.rotary_emb.inv_freq",
        new Tensor("F64", List.of(4L), new byte[32]));
    editor.write(directory.resolve("model.safetensors"));
    FailingBackend backend = new FailingBackend(-1);
    ModelLoader.load(
            Checkpoint.open(ModelFiles.directory(directory)),
            Fixture.open("llama2").config("config.json"),
            backend,
            OPTIONS,
            LoadProgress.NONE)
        .close();
    assertThat(backend.used()).isZero();
  }

  @Test
  void refusesEachMissingTensorByName() {
    for (String name : CheckpointEditor.of("llama2").tensors.keySet()) {
      CheckpointEditor editor = CheckpointEditor.of("llama2");
      editor.tensors.remove(name);
      refuses(editor, "Tensor " + name, "is missing", directory.toString());
    }
  }

  @Test
  void refusesWrongShapes() {
    CheckpointEditor editor = CheckpointEditor.of("llama2");
    Tensor up = editor.tensors.get(UP);
    editor.tensors.put(UP, new Tensor(up.dtype(), List.of(32L, 56L), up.data()));
    refuses(editor, "model.safetensors", "tensor " + UP, "shape [32, 56], expected [56, 32]");

    editor.tensors.put(UP, new Tensor(up.dtype(), List.of(56L * 32), up.data()));
    refuses(editor, "model.safetensors", "tensor " + UP, "shape [1792], expected [56, 32]");
  }

  @Test
  void refusesWrongTypes() {
    CheckpointEditor editor = CheckpointEditor.of("llama2");
    Tensor up = editor.tensors.get(UP);
    editor.tensors.put(UP, new Tensor("I32", up.shape(), up.data()));
    refuses(editor, "model.safetensors", "tensor " + UP, "dtype I32, expected F32, F16 or BF16");

    editor.tensors.put(UP, new Tensor("BF16", up.shape(), new byte[up.data().length / 2]));
    refuses(
        editor,
        "model.safetensors",
        "tensor " + UP,
        "dtype BF16, expected F32 as that of model.layers.1.mlp.gate_proj.weight");
  }

  @Test
  void refusesConfigOfAnotherModel() {
    ModelFiles files = Fixture.open("llama2").files();
    FailingBackend backend = new FailingBackend(-1);
    ModelConfig other = Fixture.open("llama3-gqa-tied").config("config.json");
    assertThatThrownBy(
            () ->
                ModelLoader.load(
                    Checkpoint.open(files), other, backend, OPTIONS, LoadProgress.NONE))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContainingAll(
            "model.safetensors", "model.embed_tokens.weight", "[96, 32], expected [96, 48]");
    ModelConfig biased = Fixture.open("llama-bias").config("config.json");
    assertThatThrownBy(
            () ->
                ModelLoader.load(
                    Checkpoint.open(Fixture.open("llama-bf16").files()),
                    biased,
                    backend,
                    OPTIONS,
                    LoadProgress.NONE))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContaining("model.layers.0.self_attn.q_proj.bias of shape [32] is missing");
  }

  @Test
  void refusesTruncatedShards() throws IOException {
    Path from = Fixture.directory("llama-sharded");
    try (var files = Files.list(from)) {
      for (Path file : files.toList()) {
        Files.copy(file, directory.resolve(file.getFileName()));
      }
    }
    Path shard = directory.resolve("model-00002-of-00003.safetensors");
    byte[] bytes = Files.readAllBytes(shard);
    Files.write(shard, Arrays.copyOf(bytes, bytes.length - 1));
    ModelConfig config = Fixture.open("llama-sharded").config("config.json");
    assertThatThrownBy(
            () ->
                ModelLoader.load(
                    Checkpoint.open(ModelFiles.directory(directory)),
                    config,
                    new FailingBackend(-1),
                    OPTIONS,
                    LoadProgress.NONE))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContainingAll("model-00002-of-00003.safetensors", "truncated");
  }
}
