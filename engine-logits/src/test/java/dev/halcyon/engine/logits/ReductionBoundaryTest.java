package dev.halcyon.engine.logits;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** 16 MiB hold 16 float32 rows of 262144 entries: the 17th goes into a chunk of its own. */
class ReductionBoundaryTest {

  private static final int VOCAB = 262144;
  private static final int ROWS = 17;
  private static final int TOP = 5;

  private final FakeDevice device = new FakeDevice();
  private final float[][] logits = new float[ROWS][VOCAB];
  private final int[] ids = new int[ROWS];

  @BeforeEach
  void drawLogits() {
    SplittableRandom random = new SplittableRandom(17);
    for (int row = 0; row < ROWS; row++) {
      ids[row] = random.nextInt(VOCAB);
      for (int id = 0; id < VOCAB; id++) {
        logits[row][id] = (float) (random.nextDouble() * 24 - 12);
      }
    }
  }

  @AfterEach
  void nothingLeaks() {
    assertThat(device.memory.account.open()).isZero();
    assertThat(device.host.account.open()).isZero();
    assertThat(device.memory.account.violations()).isEmpty();
  }

  private FullLogits onHost() {
    device.memory.account.leaveRoom(LogitsReduction.SCRATCH_BYTES);
    FullLogits full = FullLogits.prepare(device, ROWS, VOCAB, "test", e -> {});
    assertThat(full.onDevice()).isFalse();
    for (int row = 0; row < ROWS; row++) {
      full.write(row, logits[row]);
    }
    return full;
  }

  private PromptLogprobs logprobs() {
    return new PromptLogprobs(ids, TOP, true);
  }

  private void requireEveryEntry(PromptLogprobs out) {
    out.scoreFirstToken(4711);
    for (int row = 0; row < ROWS; row++) {
      int target = row + 1 < ROWS ? ids[row + 1] : 4711;
      Reference.requireEntry(out, row, logits[row], target);
    }
  }

  @Test
  void rowsOnTheHostAreReducedInChunksOfSixteen() {
    PromptLogprobs out = logprobs();
    try (FullLogits full = onHost()) {
      new LogitsReduction(device).reduce(full, out);
    }
    assertThat(device.counts("reduce")).containsExactly(16, 1);
    assertThat(device.memory.account.requests()).endsWith(16L << 20, 1L << 20);
    requireEveryEntry(out);
  }

  @Test
  void rowsOnTheDeviceAreReducedWhereTheyLie() {
    PromptLogprobs out = logprobs();
    try (FullLogits full = FullLogits.prepare(device, ROWS, VOCAB, "test", e -> {})) {
      for (int row = 0; row < ROWS; row++) {
        full.write(row, logits[row]);
      }
      new LogitsReduction(device).reduce(full, out);
    }
    assertThat(device.counts("reduce")).containsExactly(16, 1);
    assertThat(device.memory.account.requests()).as("the storage alone").hasSize(1);
    requireEveryEntry(out);
  }

  @Test
  void everyRowNeedsAnEntry() {
    try (FullLogits full = FullLogits.prepare(device, ROWS, 5, "test", e -> {})) {
      for (int entries : new int[] {ROWS - 1, ROWS + 1}) {
        PromptLogprobs out = new PromptLogprobs(new int[entries], 0, true);
        assertThatThrownBy(() -> new LogitsReduction(device).reduce(full, out))
            .isInstanceOf(IllegalArgumentException.class)
            .hasMessageContaining("17 rows of logits, has " + entries);
      }
    }
    assertThat(device.log).isEmpty();
  }

  @Test
  void aChunkWithoutRoomIsRepeatedOnTheCpu() {
    for (int n = 0; n < 2; n++) {
      device.log.clear();
      PromptLogprobs out = logprobs();
      try (FullLogits full = onHost()) {
        device.memory.account.failCall(n);
        new LogitsReduction(device).reduce(full, out);
      }
      assertThat(device.counts("reduce")).containsExactly(n == 0 ? 1 : 16);
      requireEveryEntry(out);
      device.memory.account.recover();
    }
  }

  @Test
  void bfloat16RowsAreReducedAsTheyLie() {
    LogitsType type = LogitsType.BF16;
    for (float[] row : logits) {
      for (int id = 0; id < VOCAB; id++) {
        row[id] = Elements.round(row[id], type);
      }
    }
    for (boolean room : new boolean[] {true, false}) {
      device.log.clear();
      PromptLogprobs out = logprobs();
      try (DeviceBuffer buffer = device.memory().allocate(2L * ROWS * VOCAB, "rows")) {
        for (int row = 0; row < ROWS; row++) {
          float[] values = logits[row];
          FakeMemory.use(
              buffer.slice(2L * row * VOCAB, 2L * VOCAB),
              bytes -> {
                for (int id = 0; id < VOCAB; id++) {
                  Elements.put(bytes, 2 * id, type, values[id]);
                }
              });
        }
        DeviceRows rows = new DeviceRows(device, buffer, type, ROWS, VOCAB);
        device.reductionAllocates();
        if (!room) {
          device.memory.account.refuse();
        }
        new LogitsReduction(device).reduce(rows, 0, ROWS, out, 0);
        device.awaitReductions();
        float[] last = new float[VOCAB];
        rows.read(ROWS - 1, last);
        out.retainLast(last);
      }
      assertThat(device.counts("reduce")).isEqualTo(room ? List.of(ROWS) : List.of());
      requireEveryEntry(out);
    }
  }
}
