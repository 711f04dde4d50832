package dev.halcyon.engine.cuda;

import java.util.HashMap;
import java.util.Map;

/**
 * The plans of a step on the device, one for each kind of layer. They are made and sent when the
 * first layer of a kind asks.
 */
final class PrefillWork implements AutoCloseable {

  private static final int LEAST_BLOCKS = 1024;

  private final CudaMemory memory;
  private final UploadRing uploads;
  private final Map<Key, Placed> plans = new HashMap<>();

  PrefillWork(CudaMemory memory, UploadRing uploads) {
    this.memory = memory;
    this.uploads = uploads;
  }

  /** What plans depend on beside the batch; as of {@link PrefillPlan#of}. */
  record Key(int group, int tileRows, int window, int places) {}

  /** A plan and where it is kept: its work, then its joins. */
  private static final class Placed {
    private CudaBuffer buffer;
    private int capacity;
    private int blocks;
    private int joins;

    /** Whose plan it is; null for none. */
    private CudaBatch batch;

    void close() {
      if (buffer != null) {
        buffer.close();
      }
    }
  }

  /**
   * Where a list of blocks is.
   *
   * @param count the number of blocks of each KV head
   */
  record Blocks(long address, int count) {

    /** The address from a block on. */
    long from(int block) {
      return address + (long) block * PrefillPlan.Work.INTS * Integer.BYTES;
    }
  }

  /** What to do for a batch. */
  Blocks work(CudaBatch of, Key key) {
    Placed plan = plan(of, key);
    return new Blocks(plan.buffer.address(), plan.blocks);
  }

  /** What to join afterwards. */
  Blocks joins(CudaBatch of, Key key) {
    Placed plan = plan(of, key);
    Blocks work = new Blocks(plan.buffer.address(), plan.blocks);
    return new Blocks(work.from(plan.blocks), plan.joins);
  }

  private Placed plan(CudaBatch of, Key key) {
    Placed placed = plans.computeIfAbsent(key, k -> new Placed());
    if (placed.batch != of) {
      PrefillPlan plan =
          PrefillPlan.of(of.batch(), key.group(), key.tileRows(), key.window(), key.places());
      placed.batch = null;
      send(plan, placed);
      placed.batch = of;
    }
    return placed;
  }

  private void send(PrefillPlan plan, Placed to) {
    int all = plan.work().size() + plan.joins().size();
    if (all > to.capacity || to.buffer == null) {
      int capacity = Math.max(LEAST_BLOCKS, Math.max(all, 2 * to.capacity));
      long bytes = (long) capacity * PrefillPlan.Work.INTS * Integer.BYTES;
      CudaBuffer larger = memory.allocateOwn(bytes, "blocks of attention");
      to.close();
      to.buffer = larger;
      to.capacity = capacity;
    }
    if (all > 0) {
      int[] work = PrefillPlan.ints(plan.work());
      int[] joins = PrefillPlan.ints(plan.joins());
      uploads.to(to.buffer.address()).ints(work, 0, work.length).ints(joins, 0, joins.length).end();
    }
    to.blocks = plan.work().size();
    to.joins = plan.joins().size();
  }

  @Override
  public void close() {
    plans.values().forEach(Placed::close);
    plans.clear();
  }
}
