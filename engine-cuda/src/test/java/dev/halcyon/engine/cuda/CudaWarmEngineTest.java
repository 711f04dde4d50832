package dev.halcyon.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.DTypeChoice;
import dev.halcyon.engine.DeviceMemoryUse;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.GenerationOutput;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Engines on a GPU as they open: recorded steps, memory and its ends. */
@Tag("gpu")
@Timeout(120)
class CudaWarmEngineTest {

  private static final long MIB = 1L << 20;

  @TempDir static Path directory;
  private static Path checkpoint;

  @BeforeAll
  static void writeCheckpoint() {
    checkpoint = TinyCheckpoint.write(directory.resolve("tiny"));
  }

  private static EngineBuilder engine() {
    return Engine.builder()
        .model(checkpoint)
        .backend(BackendChoice.CUDA)
        .deterministic(true)
        .deviceMemoryBytes(256 * MIB)
        .maxBatchSize(9)
        .maxBatchTokens(64)
        .kvCacheTokens(4096)
        .integrityChecks(true);
  }

  /** What is compared: tokens, and the bits of the logits that they came from. */
  private record Row(int sample, int token, int logitsHash) {}

  /**
   * Samples of one prompt end at different tokens, so that steps have from 1 to 9 rows, the same
   * ones in every engine.
   */
  private static List<Row> rows(Engine engine) {
    List<Row> rows = new ArrayList<>();
    for (int n = 1; n <= 9; n++) {
      SamplingParams params =
          SamplingParams.builder()
              .n(n)
              .seed((long) n)
              .temperature(1f)
              .maxTokens(40)
              .stopTokenIds(IntStream.range(1, 40).boxed().toList())
              .returnGenerationLogits(true)
              .build();
      int[] prompt = IntStream.range(0, 5 * n).map(i -> 41 + i * 7 % 400).toArray();
      try (GenerationResult result = engine.generate(GenerationRequest.of(prompt, params))) {
        for (GenerationOutput output : result.outputs()) {
          LogitsView logits = output.generationLogits();
          float[] row = new float[logits.vocabSize()];
          for (int i = 0; i < logits.rows(); i++) {
            logits.copyRow(i, row);
            rows.add(new Row(output.index(), output.tokenIds().get(i), Arrays.hashCode(row)));
          }
        }
      }
    }
    return rows;
  }

  @ParameterizedTest
  @EnumSource(
      value = DTypeChoice.class,
      names = {"F32", "F16", "BF16"})
  void resultsAreTheSameBitForBitWithGraphsAndWithout(DTypeChoice type) {
    List<Row> eager;
    try (Engine engine = engine().dtype(type).deviceGraphs(false).build()) {
      eager = rows(engine);
    }
    assertThat(eager).hasSizeGreaterThan(200);
    try (Engine engine = engine().dtype(type).deviceGraphs(true).build()) {
      assertThat(rows(engine)).isEqualTo(eager);
    }
  }

  /** Within one engine that times its algorithms, a request repeated gives the same. */
  @Test
  void algorithmsChosenByTimeStayTheSameForAnEngine() {
    try (Engine engine = engine().deterministic(false).dtype(DTypeChoice.BF16).build()) {
      List<Row> first = rows(engine);
      assertThat(rows(engine)).isEqualTo(first);
    }
  }

  /** Reuse leaves one token of the prompt to compute, which is a step like any other of one row. */
  @Test
  void aPromptThatIsCachedButForOneTokenIsComputedAsAGenerationRow() {
    SamplingParams greedy =
        SamplingParams.builder()
            .temperature(0f)
            .maxTokens(1)
            .ignoreEos(true)
            .returnGenerationLogits(true)
            .build();
    int[] prompt = IntStream.range(0, 33).map(i -> 41 + i).toArray();
    float[][] last = new float[2][];
    for (int graphs = 0; graphs < 2; graphs++) {
      try (Engine engine = engine().dtype(DTypeChoice.F32).deviceGraphs(graphs == 1).build()) {
        engine.generate(GenerationRequest.of(Arrays.copyOf(prompt, 32), greedy)).close();
        try (GenerationResult result = engine.generate(GenerationRequest.of(prompt, greedy))) {
          assertThat(result.usage().cachedPromptTokens()).isEqualTo(32);
          LogitsView view = result.outputs().get(0).generationLogits();
          last[graphs] = new float[view.vocabSize()];
          view.copyRow(0, last[graphs]);
        }
      }
    }
    assertThat(last[1]).isEqualTo(last[0]);
  }

  @Test
  void deviceMemoryIsToldApartByKind() {
    try (Engine engine = engine().dtype(DTypeChoice.F32).build()) {
      DeviceMemoryUse idle = engine.metrics().deviceMemory();
      // Embeddings and head are one [448, 32]; a layer has 64 x 32, 32 x 32, 96 x 32 and 32 x 48
      // elements and two norms of 32; then the last norm.
      long layer = (64 + 32 + 96 + 48) * 32 + 2 * 32;
      assertThat(idle.weights()).isEqualTo(4 * (448 * 32 + 2 * layer + 32));
      // 4096 tokens, keys and values of two heads of 8 in two layers.
      assertThat(idle.kvCache()).isEqualTo(4096L * 2 * 2 * 2 * 8 * 4);
      assertThat(idle.workspace()).isGreaterThan(Gemm.WORKSPACE_BYTES);
      assertThat(idle.results()).isZero();
      assertThat(idle.peak()).isGreaterThanOrEqualTo(idle.total());
      SamplingParams full =
          SamplingParams.builder().temperature(0f).maxTokens(1).returnContextLogits(true).build();
      try (GenerationResult result =
          engine.generate(GenerationRequest.of(new int[] {41, 42, 43}, full))) {
        assertThat(engine.metrics().deviceMemory().results()).isEqualTo(4L * 3 * 448);
      }
      assertThat(engine.metrics().deviceMemory().results()).isZero();
    }
  }

  /** Another process may take the card between the loading of weights and the first step. */
  @Test
  void aDeviceThatIsFullBeforeTheFirstStepFailsTheOpeningAndStaysUsable() {
    FullDevice[] full = {null};
    try {
      assertThatThrownBy(
              () ->
                  engine()
                      .dtype(DTypeChoice.F32)
                      // A quarter of a GiB of activations, more than the pool can have kept.
                      .deviceMemoryBytes(1L << 40)
                      .maxBatchTokens(1 << 18)
                      .progressListener(
                          (done, total) -> {
                            if (done == total && full[0] == null) {
                              full[0] = new FullDevice();
                            }
                          })
                      .build())
          .isInstanceOf(EngineException.class)
          .hasCauseInstanceOf(OutOfDeviceMemoryException.class)
          .hasMessageContaining("bytes");
    } finally {
      full[0].close();
    }
    try (Engine engine = engine().build()) {
      assertThat(rows(engine)).isNotEmpty();
    }
  }
}
