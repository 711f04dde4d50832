package dev.halcyon.engine.logits;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Storage is prepared before the first projection: device, then host, then a typed error. */
class StorageTest {

  private static final int VOCAB = 97;
  private static final int ROWS = 50;
  private static final long BYTES = 4L * ROWS * VOCAB;

  @BeforeEach
  void forgetWarnings() {
    RecordedLogs.clear();
  }

  @ParameterizedTest
  @EnumSource(LogitsType.class)
  void theDeviceComesFirst(LogitsType type) {
    try (Rig rig = Rig.of(type, VOCAB);
        Request request = new Request(rig, rig.prompt(1, ROWS), ROWS)) {
      long used = rig.device.memory.used();
      try (ContextLogits target = request.open(true, Request.NO_LOGPROBS)) {
        assertThat(rig.device.log).as("projected before the storage was there").isEmpty();
        assertThat(target.full().onDevice()).isTrue();
        assertThat(target.full().bytes()).isEqualTo(BYTES);
        assertThat(rig.device.memory.used()).isEqualTo(used + BYTES);
        assertThat(rig.device.host.used()).isZero();
      }
      assertThat(rig.device.memory.used()).as("after a cancel").isEqualTo(used);
      assertThat(RecordedLogs.warnings()).isEmpty();
    }
  }

  @ParameterizedTest
  @EnumSource(LogitsType.class)
  void theHostTakesOverWithOneWarning(LogitsType type) {
    try (Rig rig = Rig.of(type, VOCAB);
        Request request = new Request(rig, rig.prompt(2, ROWS), 7)) {
      rig.device.memory.account.leaveRoom(BYTES - 1);
      try (ContextLogits target = request.open(true, 1)) {
        assertThat(target.full().onDevice()).isFalse();
        assertThat(rig.device.host.used()).isEqualTo(BYTES);
        request.project(target, i -> BatchDescription.PLAIN);
        request.check(target, true, 1);
      }
      assertThat(rig.device.host.used()).isZero();
      assertThat(RecordedLogs.warnings())
          .singleElement()
          .asString()
          .contains("request 7", "host memory", BYTES + " bytes");
      rig.device.memory.account.recover();
      request.runAndCheck(true, 1);
      assertThat(RecordedLogs.warnings()).as("none when there is room").hasSize(1);
    }
  }

  @Test
  void withoutRoomAnywhereThatRequestAloneFailsAndSaysHowMuchItAskedFor() {
    try (Rig rig = Rig.of(LogitsType.F32, VOCAB);
        Request request = new Request(rig, rig.prompt(3, ROWS), ROWS)) {
      int open = rig.device.memory.account.open();
      // Segments of ten rows: what failed is the third, what was asked for is the whole.
      rig.device.memory.maxBufferBytes(BYTES / 5);
      rig.device.host.maxBufferBytes(BYTES / 5);
      rig.device.memory.account.leaveRoom(BYTES / 2);
      rig.device.host.account.leaveRoom(BYTES / 2);
      OutOfHostMemoryException error =
          catchThrowableOfType(OutOfHostMemoryException.class, () -> request.open(true, 0));
      assertThat(error.requestedBytes()).isEqualTo(BYTES);
      assertThat(error)
          .hasMessageContaining("request 7")
          .hasMessageContaining(BYTES + " bytes")
          .hasMessageContaining(BYTES / 2 + " bytes are left");
      assertThat(rig.device.memory.account.open()).isEqualTo(open);
      assertThat(rig.device.host.account.open()).isZero();
      assertThat(RecordedLogs.warnings()).as("nothing went to the host").isEmpty();
      request.runAndCheck(false, 0);
    }
  }

  @Test
  void segmentsHoldWholeRowsAndTheRest() {
    try (Rig rig = Rig.of(LogitsType.F32, VOCAB)) {
      long row = 4L * VOCAB;
      rig.device.memory.maxBufferBytes(16 * row + row / 2);
      int calls = rig.device.memory.account.requests().size();
      rig.plan.open("segments", ROWS, true, null).close();
      List<Long> sizes = rig.device.memory.account.requests();
      assertThat(sizes.subList(calls, sizes.size()))
          .containsExactly(16 * row, 16 * row, 16 * row, 2 * row);
    }
  }

  @Test
  void compactLogprobsNeedNoStorage() {
    try (Rig rig = Rig.of(LogitsType.F32, VOCAB)) {
      int calls = rig.device.memory.account.requests().size();
      rig.plan.open("compact", ROWS, false, new PromptLogprobs(new int[ROWS], 5, true)).close();
      assertThat(rig.device.memory.account.requests()).hasSize(calls);
      assertThat(rig.device.host.account.requests()).isEmpty();
    }
  }

  @Test
  void rowsOnTheHostAreThereBeforeTheScratchIsUsedAgain() {
    try (Rig rig = Rig.of(LogitsType.BF16, VOCAB);
        Request request = new Request(rig, rig.prompt(4, 70), 70)) {
      rig.device.memory.account.refuse();
      request.runAndCheck(true, Request.NO_LOGPROBS);
      // download counts elements
      assertThat(rig.device.log)
          .containsExactly(
              "project 32",
              "download " + 32 * VOCAB,
              "project 32",
              "download " + 32 * VOCAB,
              "project 6",
              "download " + 6 * VOCAB);
    }
  }
}
