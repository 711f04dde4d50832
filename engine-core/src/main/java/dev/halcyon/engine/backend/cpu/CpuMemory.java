package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.logits.DeviceMemory;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;

/** What stands in for a device's memory: native memory with a budget. */
final class CpuMemory implements DeviceMemory {

  private static final int PART_OF_MACHINE = 2;

  private final NativeBudget budget;

  /**
   * @param capacity the budget in bytes; 0 for half of the machine's (or container's) physical
   *     memory
   */
  CpuMemory(long capacity) {
    this.budget = new NativeBudget(capacity, PART_OF_MACHINE, "memoryBytes");
  }

  @Override
  public CpuBuffer allocate(long bytes, String purpose) {
    NativeBlock block = budget.allocate(bytes, purpose);
    if (block == null) {
      throw new OutOfDeviceMemoryException(purpose, bytes, budget.available());
    }
    return CpuBuffer.of(budget, block, bytes, purpose);
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
  public long peak() {
    return budget.peak();
  }

  @Override
  public long maxBufferBytes() {
    return NativeBlock.MAX_BYTES;
  }
}
