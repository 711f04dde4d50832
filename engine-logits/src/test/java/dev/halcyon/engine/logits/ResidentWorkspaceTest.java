package dev.halcyon.engine.logits;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ResidentWorkspaceTest {

  private static final int VOCAB = 96;

  /** A group that nobody talks in. */
  private record Silent(int size, int rank) implements RankGroup {

    @Override
    public void allGather(DeviceBuffer from, long bytes, DeviceBuffer to) {
      throw new AssertionError("nothing is gathered at construction");
    }

    @Override
    public int min(int value, DeviceBuffer scratch) {
      throw new AssertionError("nothing is voted on at construction");
    }
  }

  private static FakeHead head(FakeDevice device, LogitsType type, int ranks) {
    return ranks == 1
        ? FakeHead.whole(device, type, VOCAB)
        : FakeHead.shard(device, type, VOCAB, ranks, 1);
  }

  private static RankGroup group(int ranks) {
    return ranks == 1 ? RankGroup.single() : new Silent(ranks, 1);
  }

  /**
   * The numbers: 32 rows of 96 entries; on several ranks the own shard, all shards, whole rows and
   * 4 bytes for each rank's vote and the result; a float32 copy unless the head puts that out.
   */
  @ParameterizedTest
  @CsvSource({
    "F32, 1, 12288", // 32 * 96 * 4
    "F16, 1, 18432", // 32 * 96 * (2 + 4)
    "BF16, 1, 18432",
    "F32, 2, 30732", // 32 * (48 + 96 + 96) * 4 + 3 * 4
    "BF16, 2, 27660", // 32 * (48 + 96 + 96) * 2 + 32 * 96 * 4 + 3 * 4
    "BF16, 4, 26132" // 32 * (24 + 96 + 96) * 2 + 32 * 96 * 4 + 5 * 4
  })
  void theBytesToldAreTheBytesTaken(LogitsType type, int ranks, long bytes) {
    FakeDevice device = new FakeDevice();
    FakeHead head = head(device, type, ranks);
    assertThat(ContextLogitsPlan.workspaceBytes(head, group(ranks))).isEqualTo(bytes);
    ContextLogitsPlan plan = new ContextLogitsPlan(head, device, group(ranks));
    assertThat(device.memory.used()).isEqualTo(bytes);
    plan.close();
    assertThat(device.memory.used()).isZero();
    plan.close();
    assertThat(device.memory.used()).as("closed twice").isZero();
  }

  @ParameterizedTest
  @CsvSource({"F32, 1, 1", "BF16, 1, 2", "F32, 2, 4", "BF16, 4, 5"})
  void constructionHoldsAllOrNothing(LogitsType type, int ranks, int allocations) {
    for (int n = 0; n < allocations; n++) {
      FakeDevice device = new FakeDevice();
      FakeHead head = head(device, type, ranks);
      device.memory.account.failCall(n);
      assertThatThrownBy(() -> new ContextLogitsPlan(head, device, group(ranks)))
          .as("allocation %d", n)
          .isInstanceOf(OutOfDeviceMemoryException.class);
      assertThat(device.memory.account.open()).as("held after allocation %d", n).isZero();
      assertThat(device.memory.account.timesClosedAgain()).isZero();
    }
    FakeDevice device = new FakeDevice();
    new ContextLogitsPlan(head(device, type, ranks), device, group(ranks));
    assertThat(device.memory.account.requests()).hasSize(allocations);
  }

  /** 48 entries a rank make neither 97 nor, on one rank or on four, 96. */
  @ParameterizedTest
  @CsvSource({"97, 2, 2", "97, 2, 1", "96, 2, 4", "96, 2, 1"})
  void partsThatMakeNoWholeRowsAreRefused(int vocabSize, int parts, int ranks) {
    FakeDevice device = new FakeDevice();
    FakeHead head = FakeHead.shard(device, LogitsType.F32, vocabSize, parts, 0);
    assertThatThrownBy(() -> new ContextLogitsPlan(head, device, group(ranks)))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("all " + vocabSize + " entries")
        .hasMessageContaining("puts out 48");
    assertThat(device.memory.account.requests()).isEmpty();
  }

  @ParameterizedTest
  @CsvSource({"F32", "BF16"})
  void warmUpTouchesItAndTakesNothing(LogitsType type) {
    try (Rig rig = Rig.of(type, VOCAB)) {
      Prompt prompt = rig.prompt(1, 40);
      long used;
      try (DeviceBuffer hidden = prompt.upload(rig.device, type, 0, 40, 0, 0)) {
        used = rig.device.memory.used();
        int calls = rig.device.memory.account.requests().size();
        rig.plan.warmUp(hidden, 40);
        rig.device.complete();
        assertThat(rig.device.counts("project")).containsExactly(32);
        assertThat(rig.device.memory.used()).isEqualTo(used);
        assertThat(rig.device.memory.account.requests()).hasSize(calls);
      }
      rig.requireServes(70);
    }
  }

  @Test
  void requestsLeaveItAsItWas() {
    try (Rig rig = Rig.of(LogitsType.BF16, VOCAB)) {
      long used = rig.device.memory.used();
      rig.requireServes(70);
      rig.requireServes(33);
      assertThat(rig.device.memory.used()).isEqualTo(used);
    }
  }
}
