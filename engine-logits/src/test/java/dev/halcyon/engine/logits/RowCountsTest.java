package dev.halcyon.engine.logits;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** How many rows each projection takes, by the room there is. */
class RowCountsTest {

  private static final int VOCAB = 97;

  /** The rows of each projection when the plan can allocate so many bytes at a time. */
  private static List<Integer> counts(LogitsType type, int rows, long room) {
    try (Rig rig = Rig.of(type, VOCAB);
        Request request = new Request(rig, rig.prompt(rows, rows), rows)) {
      rig.device.memory.account.leaveRoom(room);
      request.runAndCheck(false, 2);
      return rig.device.counts("project");
    }
  }

  static Stream<Arguments> residentCounts() {
    return Stream.of(
        Arguments.of(91, List.of(32, 32, 27)),
        Arguments.of(38, List.of(32, 6)),
        Arguments.of(33, List.of(32, 1)),
        Arguments.of(32, List.of(32)),
        Arguments.of(1, List.of(1)),
        Arguments.of(64, List.of(32, 32)));
  }

  @ParameterizedTest
  @MethodSource("residentCounts")
  void withoutRoomTheResidentRowsDo(int rows, List<Integer> expected) {
    for (LogitsType type : LogitsType.values()) {
      assertThat(counts(type, rows, 0)).isEqualTo(expected);
    }
  }

  @ParameterizedTest
  @MethodSource("residentCounts")
  void rowsForTheHostUseTheResidentRows(int rows, List<Integer> expected) {
    for (LogitsType type : LogitsType.values()) {
      try (Rig rig = Rig.of(type, VOCAB);
          Request request = new Request(rig, rig.prompt(rows, rows), rows)) {
        rig.device.memory.account.failCall(0);
        int calls = rig.device.memory.account.requests().size();
        request.runAndCheck(true, 1);
        assertThat(rig.device.counts("project")).isEqualTo(expected);
        assertThat(rig.device.memory.account.requests()).as("the storage alone").hasSize(calls + 1);
      }
    }
  }

  /** 200 rows are tried, then 100, 50 and 25, which is not more than the resident rows. */
  static Stream<Arguments> halvedCounts() {
    return Stream.of(
        Arguments.of(200, List.of(200)),
        Arguments.of(199, List.of(100, 100)),
        Arguments.of(100, List.of(100, 100)),
        Arguments.of(99, List.of(50, 50, 50, 50)),
        Arguments.of(50, List.of(50, 50, 50, 50)),
        Arguments.of(49, List.of(32, 32, 32, 32, 32, 32, 8)));
  }

  @ParameterizedTest
  @MethodSource("halvedCounts")
  void rowsAreHalvedUntilTheyFit(int roomForRows, List<Integer> expected) {
    assertThat(counts(LogitsType.BF16, 200, 2L * VOCAB * roomForRows)).isEqualTo(expected);
    assertThat(counts(LogitsType.F32, 200, 4L * VOCAB * roomForRows)).isEqualTo(expected);
  }

  /** 91 halves to 46, which is 45 short of the whole. */
  @Test
  void anOddNumberIsHalvedUpwards() {
    assertThat(counts(LogitsType.F16, 91, 2L * VOCAB * 90)).containsExactly(46, 45);
  }

  @ParameterizedTest
  @ValueSource(ints = {33, 100, 1000, 6000})
  void triesAreBounded(int rows) {
    try (Rig rig = Rig.of(LogitsType.BF16, 5);
        Request request = new Request(rig, rig.prompt(1, rows), rows);
        ContextLogits target = request.open(false, 0)) {
      rig.device.memory.account.refuse();
      int calls = rig.device.memory.account.requests().size();
      request.project(target, i -> BatchDescription.PLAIN);
      // Each halving is one try, until 32 rows or fewer are left: log2(6000 / 32) < 8.
      int halvings = 0;
      for (int wanted = rows; wanted > 32; wanted = (wanted + 1) / 2) {
        halvings++;
      }
      assertThat(halvings).isLessThanOrEqualTo(8);
      assertThat(rig.device.memory.account.requests()).hasSize(calls + halvings);
      request.check(target, false, 0);
    }
  }

  /**
   * 48 MiB hold 1536 float32 rows of 2^13 entries, 32 KiB each; and 24 of 2^19 entries, 2 MiB each,
   * which is less than the 32 resident ones. 64 MiB hold 2048 rows of 2^14 entries of 16 bits, and
   * 32 of 2^20 entries.
   */
  @ParameterizedTest
  @CsvSource({
    "F32, 13, 1600, 1536, 64, 48",
    "F32, 19, 33, 32, 1, 0",
    "BF16, 14, 2100, 2048, 52, 64",
    "F16, 20, 33, 32, 1, 0"
  })
  void optionalBuffersAreBounded(
      LogitsType type, int log2OfEntries, int rows, int first, int second, long mebibytes) {
    FakeDevice device = new FakeDevice();
    FakeHead head = FakeHead.whole(device, type, 1 << log2OfEntries).silent();
    try (ContextLogitsPlan plan = new ContextLogitsPlan(head, device, RankGroup.single());
        DeviceBuffer hidden = device.memory().allocate(4L * FakeHead.HIDDEN * rows, "hidden");
        ContextLogits target = plan.open("wide", rows, false, null)) {
      int calls = device.memory.account.requests().size();
      plan.project(target, BatchDescription.PLAIN, hidden, 0, 0, rows, null);
      assertThat(device.counts("project")).containsExactly(first, second);
      List<Long> requests = device.memory.account.requests();
      assertThat(requests.subList(calls, requests.size()))
          .as("allocated for it")
          .isEqualTo(mebibytes > 0 ? List.of(mebibytes << 20) : List.of());
    }
  }

  @Test
  void float32RowsAreProjectedToWhereTheyStay() {
    try (Rig rig = Rig.of(LogitsType.F32, VOCAB);
        Request request = new Request(rig, rig.prompt(1, 91), 91)) {
      int calls = rig.device.memory.account.requests().size();
      request.runAndCheck(true, 5);
      assertThat(rig.device.counts("project")).containsExactly(91);
      assertThat(rig.device.memory.account.requests()).as("the storage alone").hasSize(calls + 1);
      assertThat(rig.device.counts("download")).isEmpty();
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = LogitsType.class,
      names = {"F16", "BF16"})
  void halfRowsAreConvertedToWhereTheyStay(LogitsType type) {
    try (Rig rig = Rig.of(type, VOCAB);
        Request request = new Request(rig, rig.prompt(1, 91), 91)) {
      int calls = rig.device.memory.account.requests().size();
      request.runAndCheck(true, 5);
      assertThat(rig.device.counts("project")).containsExactly(91);
      // The storage and the projection: no second float32 copy.
      assertThat(rig.device.memory.account.requests().subList(calls, calls + 2))
          .containsExactly(4L * 91 * VOCAB, 2L * 91 * VOCAB);
      assertThat(rig.device.memory.account.requests()).hasSize(calls + 2);
    }
  }
}
