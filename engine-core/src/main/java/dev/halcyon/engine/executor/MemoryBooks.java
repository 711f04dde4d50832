package dev.halcyon.engine.executor;

import dev.halcyon.engine.DeviceMemoryUse;
import dev.halcyon.engine.logits.DeviceMemory;
import java.util.function.Supplier;

/**
 * Tells apart what an engine's device memory is used for, by when it was allocated: what comes
 * after the KV cache belongs to requests. Read by any thread.
 */
final class MemoryBooks implements Supplier<DeviceMemoryUse> {

  private static final Fixed NOTHING = new Fixed(0, 0, 0);

  private final DeviceMemory memory;
  private volatile Fixed fixed;

  /** What is there for as long as the engine is. */
  private record Fixed(long weights, long workspace, long kvCache) {

    long total() {
      return weights + workspace + kvCache;
    }
  }

  /**
   * Opens the books when all is allocated but the KV cache and what the device's software holds.
   *
   * @param weights bytes of what is allocated that are weights
   */
  MemoryBooks(DeviceMemory memory, long weights) {
    this.memory = memory;
    this.fixed = new Fixed(weights, memory.used() - weights, 0);
  }

  /** Notes that everything allocated since the books were opened is the KV cache. */
  void kvCacheAllocated() {
    Fixed before = fixed;
    fixed = new Fixed(before.weights(), before.workspace(), memory.used() - before.total());
  }

  /** Notes that the engine's own memory was freed; results may live on. */
  void freed() {
    fixed = NOTHING;
  }

  @Override
  public DeviceMemoryUse get() {
    Fixed now = fixed;
    // Nothing of what is fixed can be free while it counts, but for the moments of closing.
    long results = Math.max(0, memory.used() - now.total());
    return new DeviceMemoryUse(
        now.weights(), now.workspace() + memory.overhead(), now.kvCache(), results, memory.peak());
  }
}
