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
    boolean gathers = gathers(head);
    long shardBytes = projectedBytes(head, rows);
    try {
      projected = allocate(shardBytes, purpose + ": projection");
      gathered =
          gathers
              ? allocate(Math.multiplyExact(shardBytes, ranks.size()), purpose + ": shards")
              : null;
      joined = gathers ? allocate(joinedBytes(head, rows), purpose + ": rows") : null;
    } catch (RuntimeException | Error e) {
      close();
      throw e;
    }
  }

  /** The bytes of the buffers. */
  static long bytes(LmHead head, RankGroup ranks, int rows) {
    long bytes = projectedBytes(head, rows);
    return gathers(head) ? bytes * (1 + ranks.size()) + joinedBytes(head, rows) : bytes;
  }

  /** Whether whole rows are made of several ranks' parts, which all have one size. */
  private static boolean gathers(LmHead head) {
    return head.shardSize() != head.vocabSize();
  }

  /** Requires that what the ranks put out makes whole rows. */
  static void requireWholeRows(LmHead head, RankGroup ranks) {
    if (gathers(head) && (long) head.shardSize() * ranks.size() != head.vocabSize()) {
      throw new IllegalArgumentException(
          "head must put out all "
              + head.vocabSize()
              + " entries of a row, or an equal share on each of "
              + ranks.size()
              + " ranks, puts out "
              + head.shardSize());
    }
  }

  private static long projectedBytes(LmHead head, int rows) {
    return Math.multiplyExact((long) rows * head.outputType().bytes(), head.shardSize());
  }

  private static long joinedBytes(LmHead head, int rows) {
    return Math.multiplyExact((long) rows * head.outputType().bytes(), head.vocabSize());
  }

  private DeviceBuffer allocate(long bytes, String purpose) {
    DeviceBuffer buffer = device.memory().allocateUninitialized(bytes, purpose);
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
    if (gathered != null) {
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
