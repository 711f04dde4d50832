package dev.halcyon.engine.cuda;

/** Device memory of an operation's own, which only grows. For the owner thread. */
final class DeviceScratch implements AutoCloseable {

  private final CudaMemory memory;
  private final String purpose;
  private CudaBuffer buffer;

  DeviceScratch(CudaMemory memory, String purpose) {
    this.memory = memory;
    this.purpose = purpose;
  }

  /**
   * The address of at least so many bytes, which hold anything. What it gave before is gone if it
   * had to grow: it is freed, in the order of the compute stream, before more is allocated.
   *
   * @throws dev.halcyon.engine.logits.OutOfDeviceMemoryException if there is no room; nothing is
   *     held then
   */
  long atLeast(long bytes) {
    if (buffer == null || buffer.bytes() < bytes) {
      close();
      buffer = memory.allocateOwn(bytes, purpose);
    }
    return buffer.address();
  }

  @Override
  public void close() {
    if (buffer != null) {
      buffer.close();
      buffer = null;
    }
  }
}
