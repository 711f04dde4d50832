package dev.halcyon.engine.executor;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.DeviceMemoryUse;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.TinyCheckpoint;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What the metrics say of device memory, against sizes worked out by hand. */
@Timeout(60)
class DeviceMemoryUseTest {

  private static final int ROWS = 16;
  private static final int SAMPLED = 4;
  private static final int HIDDEN = 32;
  private static final int VOCAB = TinyCheckpoint.VOCAB;

  /** Three hidden-sized rows; gate and up, 2 * 48; the inner ones, 48. */
  private static final long STEP = 4L * ROWS * (3 * HIDDEN + 96 + 48);

  private static final long HEAD = 4L * SAMPLED * (HIDDEN + VOCAB);

  /** 32 resident rows of float32 logits. */
  private static final long CONTEXT_WORKSPACE = 4L * 32 * VOCAB;

  /** 2048 tokens, keys and values of two heads of 8 in two layers. */
  private static final long KV = 2048L * 2 * 2 * 2 * 8 * 4;

  @TempDir Path directory;

  @Test
  void everyByteHasItsKind() {
    Path checkpoint = TinyCheckpoint.write(directory.resolve("tiny"));
    ContextRig rig =
        new ContextRig(
            ContextRig.options(
                ContextRig.engine(TestBackend.CPU, checkpoint, ROWS).maxBatchSize(SAMPLED)));
    DeviceMemoryUse idle = use(rig);
    assertThat(idle.weights()).as("mapped files").isZero();
    assertThat(idle.workspace()).isEqualTo(STEP + HEAD + CONTEXT_WORKSPACE);
    assertThat(idle.kvCache()).isEqualTo(KV);
    assertThat(idle.results()).isZero();
    assertThat(idle.total()).isEqualTo(rig.backend.deviceUsed());
    assertThat(idle.peak()).isEqualTo(idle.total());

    GenerationResult result =
        rig.model
            .executor()
            .submit(ContextRig.request(40, ContextRig.full()), ContextRig.prompt(40))
            .await();
    long rows = ContextRig.fullBytes(40);
    assertThat(use(rig))
        .isEqualTo(new DeviceMemoryUse(0, idle.workspace(), KV, rows, idle.total() + rows));
    result.contextLogits().close();
    assertThat(use(rig))
        .isEqualTo(new DeviceMemoryUse(0, idle.workspace(), KV, 0, idle.total() + rows));
    rig.close();
    assertThat(use(rig)).isEqualTo(new DeviceMemoryUse(0, 0, 0, 0, idle.total() + rows));
  }

  private static DeviceMemoryUse use(ContextRig rig) {
    return rig.model.executor().metrics().deviceMemory();
  }
}
