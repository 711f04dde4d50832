package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.Batch;
import java.util.Arrays;

/**
 * The blocks of a prefill attention on the device: pairs of a sequence and the first packed row of
 * a tile. It is the same for all layers of a step, and sent to the device once.
 */
final class PrefillWork implements AutoCloseable {

  private static final int LEAST_BLOCKS = 1024;

  private final CudaMemory memory;
  private final UploadRing uploads;
  private CudaBuffer buffer;
  private int capacity;
  private CudaBatch batch;
  private int group;
  private int tileRows;
  private int blocks;

  PrefillWork(CudaMemory memory, UploadRing uploads) {
    this.memory = memory;
    this.uploads = uploads;
  }

  /**
   * Makes the list for a batch's sequences of more than one row.
   *
   * @param queriesOfKvHead query heads that share a KV head
   * @param rows packed rows of a tile
   * @return the number of blocks
   */
  int prepare(CudaBatch of, int queriesOfKvHead, int rows) {
    if (of != batch || queriesOfKvHead != group || rows != tileRows) {
      int[] pairs = pairs(of.batch(), queriesOfKvHead, rows);
      batch = null;
      send(pairs);
      batch = of;
      group = queriesOfKvHead;
      tileRows = rows;
      blocks = pairs.length / 2;
    }
    return blocks;
  }

  /** The list's address from a block on. */
  long address(int block) {
    return buffer.address() + 2L * block * Integer.BYTES;
  }

  private void send(int[] pairs) {
    if (pairs.length / 2 > capacity) {
      int larger = Math.max(LEAST_BLOCKS, Math.max(pairs.length / 2, 2 * capacity));
      CudaBuffer grown = memory.allocateOwn(2L * larger * Integer.BYTES, "blocks of attention");
      close();
      buffer = grown;
      capacity = larger;
    }
    if (pairs.length > 0) {
      uploads.to(buffer.address()).ints(pairs, 0, pairs.length).end();
    }
  }

  /** Tiles that see most come first, so that no long one is last. */
  static int[] pairs(Batch batch, int group, int tileRows) {
    int count = 0;
    for (int s = 0; s < batch.sequences(); s++) {
      count += tiles(batch, s, group, tileRows);
    }
    // The position behind a tile's last row, then the tile's place in the order of the batch.
    long[] order = new long[count];
    int[] sequence = new int[count];
    int[] first = new int[count];
    int tile = 0;
    for (int s = 0; s < batch.sequences(); s++) {
      int rows = batch.rowStart()[s + 1] - batch.rowStart()[s];
      for (int i = 0; i < tiles(batch, s, group, tileRows); i++, tile++) {
        sequence[tile] = s;
        first[tile] = i * tileRows;
        int end = Math.min(rows, Groups.ceilDiv((i + 1) * tileRows, group));
        long seen = Math.max(0, batch.contextLength()[s] - rows + end);
        order[tile] = -seen << Integer.SIZE | tile;
      }
    }
    Arrays.sort(order);
    int[] pairs = new int[2 * count];
    for (int i = 0; i < count; i++) {
      pairs[2 * i] = sequence[(int) order[i]];
      pairs[2 * i + 1] = first[(int) order[i]];
    }
    return pairs;
  }

  private static int tiles(Batch batch, int sequence, int group, int tileRows) {
    int rows = batch.rowStart()[sequence + 1] - batch.rowStart()[sequence];
    return rows > 1 ? Groups.ceilDiv(Math.multiplyExact(rows, group), tileRows) : 0;
  }

  @Override
  public void close() {
    if (buffer != null) {
      buffer.close();
    }
  }
}
