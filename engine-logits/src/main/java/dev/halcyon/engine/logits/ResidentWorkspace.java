package dev.halcyon.engine.logits;

import java.util.ArrayList;
import java.util.List;

/**
 * The memory that lets every projection go on when nothing else can be allocated: reserved once,
 * before the KV cache is sized, and reused for the life of the engine.
 */
final class ResidentWorkspace implements AutoCloseable {

  /** The rows that it holds. */
  static final int ROWS = 32;

  private final List<Runnable> closers = new ArrayList<>();
  private final DeviceBuffer vote;
  private final ProjectionBuffers projection;
  private final DeviceBuffer conversion;

  /**
   * Reserves it, all or nothing; for a head that is not eligible, the ranks' vote alone.
   *
   * @throws OutOfDeviceMemoryException if there is no room
   */
  ResidentWorkspace(LmHead head, LogitsDevice device, RankGroup ranks) {
    DeviceMemory memory = device.memory();
    boolean eligible = eligible(head);
    try {
      vote = voteBytes(ranks) == 0 ? null : buffer(memory.allocate(voteBytes(ranks), "rank vote"));
      projection =
          eligible ? new ProjectionBuffers(head, device, ranks, ROWS, "resident logits") : null;
      if (eligible) {
        closers.add(projection::close);
      }
      conversion =
          eligible && head.outputType() != LogitsType.F32
              ? buffer(memory.allocate(conversionBytes(head), "resident logits: float32"))
              : null;
    } catch (RuntimeException | Error e) {
      close();
      throw e;
    }
  }

  private DeviceBuffer buffer(DeviceBuffer made) {
    closers.add(made::close);
    return made;
  }

  /** The bytes that it takes. */
  static long bytes(LmHead head, RankGroup ranks) {
    if (!eligible(head)) {
      return voteBytes(ranks);
    }
    return voteBytes(ranks)
        + ProjectionBuffers.bytes(head, ranks, ROWS)
        + (head.outputType() == LogitsType.F32 ? 0 : conversionBytes(head));
  }

  private static boolean eligible(LmHead head) {
    return Eligibility.of(head.description(), BatchDescription.PLAIN).eligible();
  }

  private static long voteBytes(RankGroup ranks) {
    return ranks.size() == 1 ? 0 : (ranks.size() + 1L) * Integer.BYTES;
  }

  private static long conversionBytes(LmHead head) {
    return FullLogits.bytes(ROWS, head.vocabSize());
  }

  /** Scratch of the ranks' vote; null on one rank. */
  DeviceBuffer vote() {
    return vote;
  }

  /** Null for a head that is not eligible. */
  ProjectionBuffers projection() {
    return projection;
  }

  /** Float32 rows; null for a head that puts out float32, or is not eligible. */
  DeviceBuffer conversion() {
    return conversion;
  }

  @Override
  public void close() {
    closers.forEach(Runnable::run);
  }
}
