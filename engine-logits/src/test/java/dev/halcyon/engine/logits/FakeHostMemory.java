package dev.halcyon.engine.logits;

/** Host memory in Java arrays, with books. */
final class FakeHostMemory implements HostMemory {

  final Account account = new Account();
  private long maxBufferBytes = Integer.MAX_VALUE;

  void maxBufferBytes(long bytes) {
    maxBufferBytes = bytes;
  }

  @Override
  public HostBuffer allocate(long bytes, String purpose) {
    if (bytes > maxBufferBytes || !account.admit(bytes)) {
      throw new OutOfHostMemoryException(purpose, bytes, account.capacity() - account.used());
    }
    return new Buffer(new Region(account, bytes));
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
  public long maxBufferBytes() {
    return maxBufferBytes;
  }

  private record Buffer(Region region) implements HostBuffer {

    @Override
    public long bytes() {
      return region.size();
    }

    @Override
    public void read(long first, float[] to, int toIndex, int count) {
      int at = Math.toIntExact(first * Float.BYTES);
      region.use(
          bytes ->
              bytes
                  .position(at)
                  .slice()
                  .order(bytes.order())
                  .asFloatBuffer()
                  .get(to, toIndex, count));
    }

    @Override
    public void write(long first, float[] from, int fromIndex, int count) {
      int at = Math.toIntExact(first * Float.BYTES);
      region.use(
          bytes ->
              bytes
                  .position(at)
                  .slice()
                  .order(bytes.order())
                  .asFloatBuffer()
                  .put(from, fromIndex, count));
    }

    @Override
    public void close() {
      region.close();
    }
  }
}
