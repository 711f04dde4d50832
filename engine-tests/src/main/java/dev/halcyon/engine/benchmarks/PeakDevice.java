package dev.halcyon.engine.benchmarks;

import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.logits.DeviceMemory;
import dev.halcyon.engine.logits.HostBuffer;
import dev.halcyon.engine.logits.HostMemory;
import dev.halcyon.engine.logits.LogitsDevice;
import dev.halcyon.engine.logits.LogitsType;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import dev.halcyon.engine.logits.PromptLogprobs;
import dev.halcyon.engine.logits.TileReduction;
import java.util.function.BiFunction;

/**
 * A device that remembers the most memory that was held at once. Allocations go to the device as
 * they are; what is held rises with them alone, so that looking after each one misses no peak.
 */
final class PeakDevice implements LogitsDevice {

  /** How the plan calls what it stores full rows in. */
  private static final String STORAGE = "context logits of ";

  private final LogitsDevice device;
  private final PeakMemory memory;
  private final PeakHostMemory hostMemory;

  /**
   * @param refusesStorage whether it has no room for full context logits, so that the host takes
   *     them
   */
  PeakDevice(LogitsDevice device, boolean refusesStorage) {
    this.device = device;
    this.memory = new PeakMemory(device.memory(), refusesStorage);
    this.hostMemory = new PeakHostMemory(device.hostMemory());
  }

  /** Forgets what was held before, but for what still is. */
  void restart() {
    memory.peak = memory.used();
    hostMemory.peak = hostMemory.used();
  }

  /** The most bytes of device memory held at once. */
  long peakBytes() {
    return memory.peak;
  }

  /** The most bytes of host memory held at once. */
  long peakHostBytes() {
    return hostMemory.peak;
  }

  @Override
  public DeviceMemory memory() {
    return memory;
  }

  @Override
  public HostMemory hostMemory() {
    return hostMemory;
  }

  @Override
  public void toFloat32(DeviceBuffer from, LogitsType type, long count, DeviceBuffer to) {
    device.toFloat32(from, type, count, to);
  }

  @Override
  public void copy(DeviceBuffer from, DeviceBuffer to, long bytes) {
    device.copy(from, to, bytes);
  }

  @Override
  public void download(DeviceBuffer from, long count, HostBuffer to, long toFirst) {
    device.download(from, count, to, toFirst);
  }

  @Override
  public void write(float[] from, int fromIndex, int count, DeviceBuffer to, long first) {
    device.write(from, fromIndex, count, to, first);
  }

  @Override
  public void read(
      DeviceBuffer from, LogitsType type, long first, int count, float[] to, int toIndex) {
    device.read(from, type, first, count, to, toIndex);
  }

  @Override
  public void joinShards(
      DeviceBuffer shards, LogitsType type, int ranks, int rows, int cols, DeviceBuffer out) {
    device.joinShards(shards, type, ranks, rows, cols, out);
  }

  @Override
  public void reduce(
      DeviceBuffer logits,
      LogitsType type,
      int rows,
      int cols,
      PromptLogprobs out,
      int firstEntry) {
    device.reduce(logits, type, rows, cols, out, firstEntry);
  }

  @Override
  public void awaitReductions() {
    device.awaitReductions();
  }

  @Override
  public TileReduction reduceTiles(
      LogitsType type,
      int rows,
      int cols,
      PromptLogprobs out,
      int firstEntry,
      DeviceBuffer bounds) {
    return device.reduceTiles(type, rows, cols, out, firstEntry, bounds);
  }

  private static final class PeakMemory implements DeviceMemory {

    private final DeviceMemory memory;
    private final boolean refusesStorage;
    private long peak;

    PeakMemory(DeviceMemory memory, boolean refusesStorage) {
      this.memory = memory;
      this.refusesStorage = refusesStorage;
      this.peak = memory.used();
    }

    @Override
    public DeviceBuffer allocate(long bytes, String purpose) {
      return counted(memory::allocate, bytes, purpose);
    }

    @Override
    public DeviceBuffer allocateUninitialized(long bytes, String purpose) {
      return counted(memory::allocateUninitialized, bytes, purpose);
    }

    private DeviceBuffer counted(
        BiFunction<Long, String, DeviceBuffer> allocation, long bytes, String purpose) {
      if (refusesStorage && purpose.startsWith(STORAGE)) {
        throw new OutOfDeviceMemoryException(purpose, bytes, 0);
      }
      DeviceBuffer buffer = allocation.apply(bytes, purpose);
      peak = Math.max(peak, memory.used());
      return buffer;
    }

    @Override
    public long capacity() {
      return memory.capacity();
    }

    @Override
    public long used() {
      return memory.used();
    }

    @Override
    public long peak() {
      return peak;
    }

    @Override
    public long maxBufferBytes() {
      return memory.maxBufferBytes();
    }
  }

  private static final class PeakHostMemory implements HostMemory {

    private final HostMemory memory;
    private long peak;

    PeakHostMemory(HostMemory memory) {
      this.memory = memory;
      this.peak = memory.used();
    }

    @Override
    public HostBuffer allocate(long bytes, String purpose) {
      HostBuffer buffer = memory.allocate(bytes, purpose);
      peak = Math.max(peak, memory.used());
      return buffer;
    }

    @Override
    public long capacity() {
      return memory.capacity();
    }

    @Override
    public long used() {
      return memory.used();
    }

    @Override
    public long maxBufferBytes() {
      return memory.maxBufferBytes();
    }
  }
}
