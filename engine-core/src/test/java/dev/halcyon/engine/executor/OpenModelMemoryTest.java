package dev.halcyon.engine.executor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.EngineOptions;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.BackendProvider;
import dev.halcyon.engine.backend.BackendSelector;
import dev.halcyon.engine.logits.ContextLogitsPlan;
import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.logits.HeadDescription;
import dev.halcyon.engine.logits.LmHead;
import dev.halcyon.engine.logits.LogitsType;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import dev.halcyon.engine.logits.RankGroup;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.ServiceLoader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Opening an engine with too little memory, for every amount that is too little. */
class OpenModelMemoryTest {

  @TempDir static Path directory;

  /** Opens CPU backends with a budget of its own, and keeps hold of the last one. */
  private static final class Budgeted implements BackendProvider {

    private final long bytes;
    private Backend opened;

    Budgeted(long bytes) {
      this.bytes = bytes;
    }

    @Override
    public String name() {
      return "cpu";
    }

    @Override
    public int priority() {
      return 0;
    }

    @Override
    public Optional<String> unavailable() {
      return Optional.empty();
    }

    @Override
    public Backend open(BackendOptions options) {
      BackendProvider cpu =
          ServiceLoader.load(BackendProvider.class).stream()
              .map(ServiceLoader.Provider::get)
              .filter(provider -> provider.name().equals("cpu"))
              .findFirst()
              .orElseThrow();
      opened = cpu.open(new BackendOptions(1, bytes, 0, 0));
      return opened;
    }
  }

  @Test
  void everyAllocationThatFailsGivesATypedErrorAndLeavesNothing() {
    EngineOptions options = options(TinyCheckpoint.write(directory.resolve("tiny")));
    Budgeted ample = new Budgeted(1L << 30);
    OpenModel whole = OpenModel.open(options, new BackendSelector(List.of(ample)));
    long needed = ample.opened.memory().used();
    whole.executor().close();
    assertThat(ample.opened.memory().used()).isZero();
    int refused = 0;
    // Far finer than the buffers, so that the budget ends within each of them at least once.
    for (long bytes = 1; bytes < needed; bytes += Math.max(1, needed / 300)) {
      Budgeted tight = new Budgeted(bytes);
      assertThatThrownBy(() -> OpenModel.open(options, new BackendSelector(List.of(tight))))
          .isInstanceOf(EngineException.class)
          .hasMessageContaining("bytes")
          .hasCauseInstanceOf(OutOfDeviceMemoryException.class);
      assertThat(tight.opened.memory().used()).isZero();
      refused++;
    }
    assertThat(refused).isGreaterThan(250);
    Budgeted exact = new Budgeted(needed);
    OpenModel.open(options, new BackendSelector(List.of(exact))).executor().close();
    assertThat(exact.opened.memory().used()).isZero();
  }

  @Test
  void theWorkspaceOfContextLogitsComesBeforeTheKvCache() {
    EngineOptions options = options(TinyCheckpoint.write(directory.resolve("workspace")));
    RiggedBackend backend = new RiggedBackend(TestBackend.CPU);
    long[] workspace = {0};
    List<Long> usedBeforeKv = new ArrayList<>();
    List<Long> usedBeforeWorkspace = new ArrayList<>();
    backend.fault(
        (operation, purpose, bytes) -> {
          if (operation.equals("allocateKv")) {
            usedBeforeKv.add(backend.deviceUsed());
          } else if (operation.equals(RiggedBackend.DEVICE) && purpose.contains("resident")) {
            usedBeforeWorkspace.add(backend.deviceUsed());
            workspace[0] += bytes;
          }
        });
    OpenModel model = OpenModel.open(options, new BackendSelector(List.of(backend)));
    // 32 rows of 448 float32 entries: on one rank a float32 head needs nothing else.
    assertThat(workspace[0]).isEqualTo(32 * 448 * 4);
    assertThat(workspace[0])
        .isEqualTo(ContextLogitsPlan.workspaceBytes(new TinyHead(), RankGroup.single()));
    assertThat(usedBeforeKv).hasSize(1);
    assertThat(usedBeforeKv.get(0) - usedBeforeWorkspace.get(0)).isEqualTo(workspace[0]);
    model.executor().close();
    assertThat(backend.deviceUsed()).isZero();
  }

  /** The shape of the tiny model's head. */
  private record TinyHead() implements LmHead {

    @Override
    public HeadDescription description() {
      return HeadDescription.whole(HeadDescription.Weights.F32, TinyCheckpoint.VOCAB);
    }

    @Override
    public int hiddenSize() {
      return 32;
    }

    @Override
    public int hiddenElementBytes() {
      return Float.BYTES;
    }

    @Override
    public int vocabSize() {
      return TinyCheckpoint.VOCAB;
    }

    @Override
    public int shardSize() {
      return TinyCheckpoint.VOCAB;
    }

    @Override
    public LogitsType outputType() {
      return LogitsType.F32;
    }

    @Override
    public void project(DeviceBuffer hidden, int rows, DeviceBuffer out) {
      throw new AssertionError("a shape projects nothing");
    }
  }

  private static EngineOptions options(Path checkpoint) {
    EngineBuilder builder =
        Engine.builder()
            .model(checkpoint)
            .threads(1)
            .maxBatchSize(4)
            .maxBatchTokens(32)
            .kvCacheTokens(128);
    return TestBackend.options(builder);
  }
}
