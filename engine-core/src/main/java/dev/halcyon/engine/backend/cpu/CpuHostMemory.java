package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.logits.HostBuffer;
import dev.halcyon.engine.logits.HostMemory;
import dev.halcyon.engine.logits.OutOfHostMemoryException;

/** Host memory: native memory with a budget of its own, which outlives the backend. */
final class CpuHostMemory implements HostMemory {

  private static final int PART_OF_MACHINE = 4;

  private final NativeBudget budget;

  /**
   * @param capacity the budget in bytes; 0 for a quarter of the machine's (or container's) physical
   *     memory
   */
  CpuHostMemory(long capacity) {
    this.budget = new NativeBudget(capacity, PART_OF_MACHINE, "hostMemoryBytes");
  }

  @Override
  public HostBuffer allocate(long bytes, String purpose) {
    NativeBlock block = budget.allocate(bytes, purpose);
    if (block == null) {
      throw new OutOfHostMemoryException(purpose, bytes, budget.available());
    }
    return new CpuHostBuffer(budget, block, bytes, purpose);
  }

  @Override
  public long capacity() {
    return budget.capacity();
  }

  @Override
  public long used() {
    return budget.used();
  }

  @Override
  public long maxBufferBytes() {
    return NativeBlock.MAX_BYTES;
  }
}
