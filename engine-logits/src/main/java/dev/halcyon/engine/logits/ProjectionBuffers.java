package dev.halcyon.engine.logits;

import java.util.ArrayList;
import java.util.List;

/**
 * The buffers that a projection of some rows goes through: the head's output, and what several
 * ranks gather and join.
 */
final class ProjectionBuffers implements AutoCloseable {

  private final LmHead head;
  private final LogitsDevice device;
  private final RankGroup ranks;
  private final int rows;
  private final List<DeviceBuffer> owned = new ArrayList<>();
  private final DeviceBuffer projected;
  private final DeviceBuffer gathered;
  private final DeviceBuffer joined;

  /** Allocates the buffers, all or none. */
  ProjectionBuffers(LmHead head, LogitsDevice device, RankGroup ranks, int rows, String purpose) {
    this.head = head;
    this.device = device;
    this.ranks = ranks;
    this.rows = rows;
    boolean alone = ranks.size() == 1;
    long shardBytes = projectedBytes(head, rows);
    try {
      projected = allocate(shardBytes, purpose + ": projection");
      gathered =
          alone
              ? null
              : allocate(Math.multiplyExact(shardBytes, ranks.size()), purpose + ": shards");
      joined = alone ? null : allocate(joinedBytes(head, rows), purpose + ": rows");
    } catch (RuntimeException | Error e) {
      close();
      throw e;
    }
  }

  /** The bytes of the buffers. */
  static long bytes(LmHead head, RankGroup ranks, int rows) {
    long bytes = projectedBytes(head, rows);
    return ranks.size() == 1 ? bytes : bytes * (1 + ranks.size()) + joinedBytes(head, rows);
  }

  private static long projectedBytes(LmHead head, int rows) {
    return Math.multiplyExact((long) rows * head.outputType().bytes(), head.shardSize());
  }

  private static long joinedBytes(LmHead head, int rows) {
    return Math.multiplyExact((long) rows * head.outputType().bytes(), head.vocabSize());
  }

  private DeviceBuffer allocate(long bytes, String purpose) {
    DeviceBuffer buffer = device.memory().allocate(bytes, purpose);
    owned.add(buffer);
    return buffer;
  }

  /** The most rows of a projection. */
  int rows() {
    return rows;
  }

  /**
   * Projects hidden rows; whole rows on every rank.
   *
   * @param hidden [count, hiddenSize]
   * @return rows that are valid until the next projection
   */
  DeviceRows project(DeviceBuffer hidden, int count) {
    head.project(hidden, count, projected);
    DeviceBuffer whole = projected;
    if (ranks.size() > 1) {
      ranks.allGather(projected, projectedBytes(head, count), gathered);
      device.joinShards(gathered, head.outputType(), ranks.size(), count, head.shardSize(), joined);
      whole = joined;
    }
    return new DeviceRows(device, whole, head.outputType(), count, head.vocabSize());
  }

  @Override
  public void close() {
    owned.forEach(DeviceBuffer::close);
  }
}
