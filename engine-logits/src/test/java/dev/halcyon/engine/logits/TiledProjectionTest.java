package dev.halcyon.engine.logits;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Logprobs by tiles of the vocabulary: what they are, which way rows go, and what that takes. */
class TiledProjectionTest {

  private static final int VOCAB = 500;
  private static final int LENGTH = 91;

  /** Room for 91 rows of 128 columns of 16 bits. */
  private static final long TILE = 2L * 128 * LENGTH;

  @ParameterizedTest
  @CsvSource({
    "BF16, 91, 0",
    "BF16, 91, 3",
    "BF16, 40, 2",
    "F16, 40, 5",
    "BF16, 1, 1",
    "F16, 91, 500"
  })
  void rowsByTilesAreScoredAsWholeOnes(LogitsType type, int chunk, int k) {
    try (Rig rig = Rig.byTiles(type, VOCAB, TILE, 0);
        Request request = new Request(rig, rig.prompt(chunk, LENGTH), chunk)) {
      request.runAndCheck(false, k);
    }
  }

  /** Which columns there are is asked by their number: four tiles, of which the last overlaps. */
  @Test
  void theLastTileIsAsWideAsTheOthers() {
    try (Rig rig = Rig.byTiles(LogitsType.BF16, VOCAB, TILE, 0);
        Request request = new Request(rig, rig.prompt(1, LENGTH), LENGTH)) {
      request.runAndCheck(false, 2);
      assertThat(rig.device.counts("tile")).containsExactly(128, 128, 128, 128);
      assertThat(rig.device.counts("project")).isEmpty();
      assertThat(rig.device.counts("reduce")).isEmpty();
    }
  }

  /** 40 rows have room for 291 columns: two tiles, of 250 columns rounded up. 11 go in one. */
  @Test
  void tilesAreAsFewAsCanBeAndAlike() {
    try (Rig rig = Rig.byTiles(LogitsType.BF16, VOCAB, TILE, 0);
        Request request = new Request(rig, rig.prompt(1, LENGTH), 40)) {
      request.runAndCheck(false, 2);
      assertThat(rig.device.counts("tile")).containsExactly(256, 256, 256, 256);
      assertThat(rig.device.counts("project")).containsExactly(11);
    }
  }

  /** 91 rows in tiles for 50: those of 50, then 41, which have room for 156 columns. */
  @Test
  void moreRowsThanATileHoldsAreTakenInTurn() {
    try (Rig rig = Rig.byTiles(LogitsType.BF16, VOCAB, 2L * 128 * 50, 0);
        Request request = new Request(rig, rig.prompt(1, LENGTH), LENGTH)) {
      request.runAndCheck(false, 2);
      assertThat(rig.device.counts("tile")).isEqualTo(Collections.nCopies(8, 128));
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 7})
  void rowsOutsideOfTheirBoundsAreReducedWhole(int miss) {
    try (Rig rig = Rig.byTiles(LogitsType.BF16, VOCAB, TILE, miss);
        Request request = new Request(rig, rig.prompt(miss, LENGTH), LENGTH)) {
      request.runAndCheck(false, 3);
      // The last row scores nothing yet.
      int missed = (LENGTH - 1) / miss;
      assertThat(rig.device.counts("project")).isEqualTo(Collections.nCopies(missed, 1));
    }
  }

  /** Nothing is held for a tile while the device works on what was called for it. */
  @Test
  void tilesAreGivenBackBeforeTheWait() {
    try (Rig rig = Rig.byTiles(LogitsType.BF16, VOCAB, 2L * 128 * 50, 0);
        Request request = new Request(rig, rig.prompt(1, LENGTH), LENGTH)) {
      request.runAndCheck(false, 2);
      assertThat(rig.device.counts("wait")).containsExactly(0, 0);
    }
  }

  @Test
  void withoutRoomForTheLastRowOfTheCallerItIsKeptApart() {
    try (Rig rig = Rig.byTiles(LogitsType.BF16, VOCAB, TILE, 0);
        Request request = new Request(rig, rig.prompt(4, LENGTH), LENGTH);
        ContextLogits target = request.open(false, 2)) {
      request.projectWithoutLastRow(target);
      assertThat(rig.device.counts("tile")).hasSize(4);
      request.checkResults(target, false, 2);
    }
  }

  /** Its columns are copied while others are projected, each once though the last tile overlaps. */
  @Test
  void theLastRowGoesToTheHostTileByTile() {
    try (Rig rig = Rig.byTiles(LogitsType.BF16, VOCAB, TILE, 0);
        Request request = new Request(rig, rig.prompt(5, LENGTH), LENGTH)) {
      request.runAndCheck(false, 2);
      assertThat(rig.device.counts("download")).containsExactly(128, 128, 128, 116);
    }
  }

  @Test
  void withoutRoomOnTheHostTheLastRowIsReadAtTheEnd() {
    FakeDevice device = new FakeDevice();
    device.host.account.refuse();
    try (Rig rig = Rig.byTiles(device, LogitsType.BF16, VOCAB, TILE, 0);
        Request request = new Request(rig, rig.prompt(6, LENGTH), LENGTH)) {
      request.runAndCheck(false, 2);
      assertThat(device.counts("tile")).hasSize(4);
      assertThat(device.counts("download")).isEmpty();
    }
  }

  @ParameterizedTest
  @EnumSource(LogitsType.class)
  void whatIsWantedInFullGoesByRows(LogitsType type) {
    try (Rig rig = Rig.byTiles(type, VOCAB, TILE, 0);
        Request request = new Request(rig, rig.prompt(2, LENGTH), LENGTH)) {
      request.runAndCheck(true, 2);
      request.runAndCheck(true, Request.NO_LOGPROBS);
      assertThat(rig.device.counts("tile")).isEmpty();
    }
  }

  /** Heads with and without tiles, whose rows fit at once and don't. */
  @ParameterizedTest
  @EnumSource(LogitsType.class)
  void whatIsTriedOutIsWhatIsDone(LogitsType type) {
    for (int rows : new int[] {1, 11, LENGTH}) {
      try (Rig tiled = Rig.byTiles(type, VOCAB, TILE, 0);
          Rig whole = Rig.of(type, VOCAB)) {
        for (Rig rig : List.of(tiled, whole)) {
          try (DeviceBuffer hidden =
              rig.device.memory().allocate(4L * FakeHead.HIDDEN * LENGTH, "hidden")) {
            rig.plan.tryOut(hidden, rows);
          }
        }
        boolean byTiles = type != LogitsType.F32 && rows == LENGTH;
        assertThat(tiled.device.counts("tile")).isEqualTo(byTiles ? List.of(128) : List.of());
        assertThat(whole.device.counts("tile")).isEmpty();
      }
    }
  }

  @Test
  void aDeviceThatTakesWholeRowsGetsThem() {
    try (Rig rig = Rig.byTiles(LogitsType.BF16, VOCAB, TILE, 0);
        Request request = new Request(rig, rig.prompt(2, LENGTH), LENGTH)) {
      rig.device.reducesNoTiles();
      request.runAndCheck(false, 2);
      assertThat(rig.device.counts("tile")).isEmpty();
    }
  }

  /** Half the columns are tried once: 128 are left, then none. */
  @Test
  void withLittleRoomTilesAreNarrower() {
    try (Rig rig = Rig.byTiles(LogitsType.BF16, VOCAB, 2 * TILE, 0);
        Request request = new Request(rig, rig.prompt(3, LENGTH), LENGTH)) {
      rig.device.memory.account.leaveRoom(TILE);
      request.runAndCheck(false, 2);
      assertThat(rig.device.counts("tile")).containsExactly(128, 128, 128, 128);
      rig.device.log.clear();
      rig.device.memory.account.leaveRoom(TILE - 1);
      request.runAndCheck(false, 2);
      assertThat(rig.device.counts("tile")).isEmpty();
    }
  }

  /**
   * 1024 rows of 131072 entries of 16 bits: four tiles of 64 MiB, and what is counted with them.
   */
  @Test
  void memoryIsBoundedByTheDefaults() {
    FakeDevice device = new FakeDevice();
    FakeHead head = FakeHead.whole(device, LogitsType.BF16, 131_072).tiled(0);
    try (ContextLogitsPlan plan = new ContextLogitsPlan(head, device, RankGroup.single());
        DeviceBuffer hidden = device.memory().allocate(2L * FakeHead.HIDDEN * 9000, "hidden")) {
      int calls = device.memory.account.requests().size();
      plan.tryOut(hidden, 1024);
      plan.tryOut(hidden, 9000);
      assertThat(device.counts("tile")).containsExactly(32_768, 4096);
      List<Long> requests = device.memory.account.requests();
      // And what is tried of whole rows.
      assertThat(requests.subList(calls, requests.size())).containsOnly(64L << 20);
    }
  }
}
