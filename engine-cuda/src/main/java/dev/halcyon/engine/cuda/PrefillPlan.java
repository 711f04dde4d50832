package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.Batch;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * How the sequences of more than one row in a batch are shared out among blocks. A block takes a
 * tile of packed rows, over all the keys that they see; only where tiles are too few for the
 * device, as those of a short chunk behind a long context are, a tile's keys are cut into parts.
 *
 * @param work for each block and KV head, as prefill.cuh's Work
 * @param joins likewise for each tile that was cut
 * @param slots the places that parts need for what they find, for each KV head
 */
record PrefillPlan(List<Work> work, List<Work> joins, int slots) {

  /** Tiles of keys begin at multiples of this, and so do parts. */
  static final int KEYS = 64;

  /** A part of fewer keys is not worth joining. */
  private static final int LEAST_PART = 256;

  private static final int ALL_KEYS = 1 << 30;
  private static final int WHOLE = -1;

  /**
   * A block's work.
   *
   * @param firstRow the first packed row of the tile
   * @param firstKey the first position of the part, or the first slot to join
   * @param endKey the position behind it, or the slot behind the last one
   * @param slot where a part is left; -1 for none
   */
  record Work(int sequence, int firstRow, int firstKey, int endKey, int slot) {

    static final int INTS = 5;
  }

  /** A tile and the positions that it sees, from a multiple of KEYS on. */
  private record Tile(int sequence, int firstRow, int low, int high) {

    int seen() {
      return high - low;
    }
  }

  /**
   * Makes a plan.
   *
   * @param group query heads that share a KV head
   * @param tileRows packed rows of a tile
   * @param window positions that a row sees
   * @param places how many blocks of a KV head can run at once; 0 to cut no tile
   */
  static PrefillPlan of(Batch batch, int group, int tileRows, int window, int places) {
    List<Tile> tiles = tiles(batch, group, tileRows, window);
    long seen = tiles.stream().mapToLong(Tile::seen).sum();
    List<Work> work = new ArrayList<>();
    List<Work> joins = new ArrayList<>();
    int slots = 0;
    for (Tile tile : tiles) {
      // No more places than there are, as all that is rounded is rounded down.
      long share = tiles.size() < places && seen > 0 ? tile.seen() * (long) places / seen : 1;
      int parts = (int) Math.min(share, tile.seen() / LEAST_PART);
      if (parts < 2) {
        work.add(new Work(tile.sequence(), tile.firstRow(), 0, ALL_KEYS, WHOLE));
      } else {
        joins.add(new Work(tile.sequence(), tile.firstRow(), slots, slots + parts, WHOLE));
        cut(tile, parts, slots, work);
        slots += parts;
      }
    }
    return new PrefillPlan(work, joins, slots);
  }

  private static void cut(Tile tile, int parts, int slot, List<Work> work) {
    int keyTiles = Groups.ceilDiv(tile.seen(), KEYS);
    for (int i = 0; i < parts; i++) {
      int from = tile.low() + (int) ((long) keyTiles * i / parts) * KEYS;
      int to = tile.low() + (int) ((long) keyTiles * (i + 1) / parts) * KEYS;
      work.add(new Work(tile.sequence(), tile.firstRow(), from, to, slot + i));
    }
  }

  /** Tiles that see most come first, so that no long one is last. */
  private static List<Tile> tiles(Batch batch, int group, int tileRows, int window) {
    List<Tile> tiles = new ArrayList<>();
    for (int s = 0; s < batch.sequences(); s++) {
      int rows = batch.rowStart()[s + 1] - batch.rowStart()[s];
      int packed = rows > 1 ? Math.multiplyExact(rows, group) : 0;
      int position = batch.contextLength()[s] - rows;
      for (int first = 0; first < packed; first += tileRows) {
        int last = Math.min(packed, first + tileRows) - 1;
        int high = Math.max(0, position + last / group + 1);
        int low = Math.max(0, position + first / group - window + 1) / KEYS * KEYS;
        tiles.add(new Tile(s, first, Math.min(low, high), high));
      }
    }
    tiles.sort(Comparator.comparingInt(Tile::seen).reversed());
    return tiles;
  }

  /** The integers of blocks, one behind the other. */
  static int[] ints(List<Work> blocks) {
    int[] ints = new int[blocks.size() * Work.INTS];
    int at = 0;
    for (Work block : blocks) {
      ints[at++] = block.sequence();
      ints[at++] = block.firstRow();
      ints[at++] = block.firstKey();
      ints[at++] = block.endKey();
      ints[at++] = block.slot();
    }
    return ints;
  }
}
