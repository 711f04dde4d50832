package dev.halcyon.engine.executor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.EngineOptions;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.backend.BackendSelector;
import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.backend.StepLimits;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Steps that a backend has run before the first request. */
@Timeout(60)
class WarmUpTest {

  private static final int BLOCK_SIZE = 16;

  @TempDir static Path directory;
  private static Path checkpoint;

  @BeforeAll
  static void writeCheckpoint() {
    checkpoint = TinyCheckpoint.write(directory.resolve("tiny"));
  }

  private static EngineOptions options() {
    return ContextRig.options(
        ContextRig.engine(TestBackend.CPU, checkpoint, 32).maxBatchSize(4).maxSequenceLength(100));
  }

  /** One sequence of rows tokens, from block 0 on. */
  private static Batch sequence(int rows) {
    int[] positions = IntStream.range(0, rows).toArray();
    return new Batch(
        rows,
        new int[rows],
        positions,
        positions,
        1,
        new int[] {0, rows},
        new int[] {rows},
        new int[][] {IntStream.range(0, (rows + BLOCK_SIZE - 1) / BLOCK_SIZE).toArray()});
  }

  @Test
  void aBackendMayRunTheLargestStepAndNothingOfItRemains() {
    List<Integer> expected;
    try (ContextRig cold = new ContextRig(options())) {
      expected = tokens(cold.model);
    }
    RiggedBackend backend = new RiggedBackend(TestBackend.CPU);
    List<StepLimits> limits = new ArrayList<>();
    List<String> operations = new ArrayList<>();
    backend.warmUp(
        (given, step) -> {
          limits.add(given);
          backend.fault((operation, purpose, bytes) -> operations.add(operation));
          step.accept(sequence(given.rows()));
          backend.fault(RiggedBackend.NONE);
        });
    OpenModel model = OpenModel.open(options(), new BackendSelector(List.of(backend)));
    assertThat(limits).containsExactly(new StepLimits(32, 4, 100));
    assertThat(operations).contains("upload", "runStep", "gatherRows", "linear", "sample");
    assertThat(tokens(model)).isEqualTo(expected);
    model.executor().close();
    assertThat(backend.deviceUsed()).isZero();
  }

  private static List<Integer> tokens(OpenModel model) {
    return model
        .executor()
        .submit(
            ContextRig.request(20, ContextRig.greedy().maxTokens(12).build()),
            ContextRig.prompt(20))
        .await()
        .outputs()
        .get(0)
        .tokenIds();
  }

  @Test
  void aStepThatHasNoRoomFailsTheOpeningAndSaysWhatToLower() {
    for (String operation : List.of("upload", "attention", "sample")) {
      RiggedBackend backend = new RiggedBackend(TestBackend.CPU);
      backend.warmUp(
          (limits, step) -> {
            backend.fault(
                (called, purpose, bytes) -> {
                  if (called.equals(operation)) {
                    throw RiggedBackend.outOfDevice("a test's scratch", 77);
                  }
                });
            step.accept(sequence(limits.rows()));
          });
      assertThatThrownBy(() -> OpenModel.open(options(), new BackendSelector(List.of(backend))))
          .isInstanceOf(EngineException.class)
          .hasCauseInstanceOf(OutOfDeviceMemoryException.class)
          .hasMessageContaining("kvCacheTokens (2048)")
          .hasMessageContaining("maxBatchTokens (32)")
          .hasMessageContaining("maxBatchSize (4)")
          .hasMessageContaining("77 bytes for a test's scratch");
      assertThat(backend.deviceUsed()).isZero();
    }
  }
}
