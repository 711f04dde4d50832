package dev.halcyon.engine.logits;

import java.nio.ByteBuffer;
import java.util.Objects;
import java.util.function.Consumer;

/** Device memory in Java arrays, with books. */
final class FakeMemory implements DeviceMemory {

  final Account account = new Account();
  private final Runnable beforeFree;
  private long maxBufferBytes = Integer.MAX_VALUE;

  /**
   * @param beforeFree completes what the device still has to do: memory is freed in its order
   */
  FakeMemory(Runnable beforeFree) {
    this.beforeFree = beforeFree;
  }

  void maxBufferBytes(long bytes) {
    maxBufferBytes = bytes;
  }

  @Override
  public DeviceBuffer allocate(long bytes, String purpose) {
    if (bytes > maxBufferBytes || !account.admit(bytes)) {
      throw new OutOfDeviceMemoryException(purpose, bytes, account.capacity() - account.used());
    }
    return new Buffer(new Region(account, bytes), 0, bytes, true);
  }

  /** Every element of it is NaN, whatever its type. */
  @Override
  public DeviceBuffer allocateUninitialized(long bytes, String purpose) {
    DeviceBuffer buffer = allocate(bytes, purpose);
    use(
        buffer,
        all -> {
          while (all.hasRemaining()) {
            all.put((byte) -1);
          }
        });
    return buffer;
  }

  @Override
  public long capacity() {
    return account.capacity();
  }

  @Override
  public long used() {
    return account.used();
  }

  @Override
  public long peak() {
    return account.peak();
  }

  @Override
  public long maxBufferBytes() {
    return maxBufferBytes;
  }

  /** Lets an action see a buffer's bytes from its start. */
  static void use(DeviceBuffer buffer, Consumer<ByteBuffer> action) {
    Buffer part = (Buffer) buffer;
    part.region.use(
        all -> action.accept(all.slice((int) part.offset, (int) part.bytes).order(all.order())));
  }

  private final class Buffer implements DeviceBuffer {
    private final Region region;
    private final long offset;
    private final long bytes;
    private final boolean owner;

    Buffer(Region region, long offset, long bytes, boolean owner) {
      this.region = region;
      this.offset = offset;
      this.bytes = bytes;
      this.owner = owner;
    }

    @Override
    public long bytes() {
      return bytes;
    }

    @Override
    public DeviceBuffer slice(long from, long size) {
      Objects.checkFromIndexSize(from, size, bytes);
      return new Buffer(region, offset + from, size, false);
    }

    @Override
    public void close() {
      if (owner) {
        beforeFree.run();
        region.close();
      }
    }
  }
}
