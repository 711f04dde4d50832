package dev.halcyon.engine.logits;

/** A group of one: there is nobody to talk to. */
enum SingleRank implements RankGroup {
  INSTANCE;

  @Override
  public int size() {
    return 1;
  }

  @Override
  public int rank() {
    return 0;
  }

  @Override
  public void allGather(DeviceBuffer from, long bytes, DeviceBuffer to) {
    throw new IllegalStateException("A group of one rank gathers nothing");
  }

  @Override
  public int min(int value, DeviceBuffer scratch) {
    return value;
  }
}
