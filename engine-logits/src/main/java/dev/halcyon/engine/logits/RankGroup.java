package dev.halcyon.engine.logits;

/** The tensor-parallel ranks that hold a head together. All of them call the same, in one order. */
public interface RankGroup {

  /** The number of ranks. */
  int size();

  /** Which one this is, from 0. */
  int rank();

  /**
   * Collects every rank's part: {@code to[rank] = from} of that rank.
   *
   * @param from this rank's part
   * @param bytes its size
   * @param to [size, bytes], storage of the caller's
   */
  void allGather(DeviceBuffer from, long bytes, DeviceBuffer to);

  /**
   * The lowest of the ranks' values, the same on all of them.
   *
   * @param scratch at least 4 * (size + 1) bytes of device memory
   */
  int min(int value, DeviceBuffer scratch);

  /** The group of a head that is on one rank. */
  static RankGroup single() {
    return SingleRank.INSTANCE;
  }
}
