package dev.halcyon.engine.logits;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.Consumer;

/**
 * Storage for [rows, vocabSize] float32 logits, on the device or the host, in as many buffers as it
 * takes. One thread fills it; once it is full, any thread may read and close it.
 */
public final class FullLogits implements AutoCloseable, LogitsRows {

  private final LogitsDevice device;
  private final int rows;
  private final int vocabSize;
  private final int segmentRows;
  private final List<DeviceBuffer> onDevice;
  private final List<HostBuffer> onHost;
  private final ReadWriteLock lock = new ReentrantReadWriteLock();
  private volatile String closed;
  private Consumer<FullLogits> onClose = self -> {};

  private FullLogits(
      LogitsDevice device,
      int rows,
      int vocabSize,
      int segmentRows,
      List<DeviceBuffer> onDevice,
      List<HostBuffer> onHost) {
    this.device = device;
    this.rows = rows;
    this.vocabSize = vocabSize;
    this.segmentRows = segmentRows;
    this.onDevice = onDevice;
    this.onHost = onHost;
  }

  /** The bytes that storage of this shape takes. */
  public static long bytes(int rows, int vocabSize) {
    return Math.multiplyExact(rows * (long) Float.BYTES, vocabSize);
  }

  /**
   * Prepares storage: device memory, or host memory if the device has no room.
   *
   * @param purpose what it is for, named in errors
   * @param onFallback told what the device said when the host takes its place
   * @throws OutOfHostMemoryException if neither has room, with the bytes that were asked for;
   *     nothing is held then
   */
  public static FullLogits prepare(
      LogitsDevice device,
      int rows,
      int vocabSize,
      String purpose,
      Consumer<OutOfDeviceMemoryException> onFallback) {
    try {
      return onDevice(device, rows, vocabSize, purpose);
    } catch (OutOfDeviceMemoryException e) {
      FullLogits host = onHost(device, rows, vocabSize, purpose);
      try {
        onFallback.accept(e);
      } catch (RuntimeException | Error failure) {
        host.close();
        throw failure;
      }
      return host;
    }
  }

  private static FullLogits onDevice(LogitsDevice device, int rows, int vocabSize, String purpose) {
    DeviceMemory memory = device.memory();
    int segmentRows = segmentRows(memory.maxBufferBytes(), vocabSize);
    List<DeviceBuffer> segments = new ArrayList<>();
    try {
      for (int row = 0; row < rows; row += segmentRows) {
        long bytes = bytes(Math.min(segmentRows, rows - row), vocabSize);
        segments.add(memory.allocateUninitialized(bytes, purpose));
      }
    } catch (RuntimeException | Error e) {
      segments.forEach(DeviceBuffer::close);
      throw e;
    }
    return new FullLogits(device, rows, vocabSize, segmentRows, segments, null);
  }

  private static FullLogits onHost(LogitsDevice device, int rows, int vocabSize, String purpose) {
    HostMemory memory = device.hostMemory();
    int segmentRows = segmentRows(memory.maxBufferBytes(), vocabSize);
    List<HostBuffer> segments = new ArrayList<>();
    try {
      for (int row = 0; row < rows; row += segmentRows) {
        long bytes = bytes(Math.min(segmentRows, rows - row), vocabSize);
        segments.add(memory.allocate(bytes, purpose));
      }
    } catch (OutOfHostMemoryException e) {
      segments.forEach(HostBuffer::close);
      throw whole(e, bytes(rows, vocabSize), purpose, memory);
    } catch (RuntimeException | Error e) {
      segments.forEach(HostBuffer::close);
      throw e;
    }
    return new FullLogits(device, rows, vocabSize, segmentRows, null, segments);
  }

  /** The error for the whole storage in place of that for one of its segments. */
  private static OutOfHostMemoryException whole(
      OutOfHostMemoryException e, long bytes, String purpose, HostMemory memory) {
    OutOfHostMemoryException whole =
        new OutOfHostMemoryException(purpose, bytes, memory.capacity() - memory.used());
    whole.initCause(e);
    return whole;
  }

  private static int segmentRows(long maxBufferBytes, int vocabSize) {
    return (int) Math.max(1, Math.min(Integer.MAX_VALUE, maxBufferBytes / bytes(1, vocabSize)));
  }

  /** Whether the rows lie on the device. */
  public boolean onDevice() {
    return onDevice != null;
  }

  @Override
  public int rows() {
    return rows;
  }

  @Override
  public LogitsType type() {
    return LogitsType.F32;
  }

  @Override
  public int vocabSize() {
    return vocabSize;
  }

  /** The bytes held. */
  public long bytes() {
    return bytes(rows, vocabSize);
  }

  @Override
  public int contiguous(int row) {
    return Math.min(rows, (row / segmentRows + 1) * segmentRows) - row;
  }

  @Override
  public DeviceBuffer onDevice(int row, int count) {
    if (onDevice == null) {
      return null;
    }
    return onDevice
        .get(row / segmentRows)
        .slice(bytes(row % segmentRows, vocabSize), bytes(count, vocabSize));
  }

  /** Stores float32 rows that lie on the device, in memory that may be used again at once. */
  void store(int row, int count, DeviceBuffer float32) {
    int done = 0;
    while (done < count) {
      int at = row + done;
      int run = Math.min(count - done, contiguous(at));
      DeviceBuffer from = float32.slice(bytes(done, vocabSize), bytes(run, vocabSize));
      if (onDevice != null) {
        device.copy(from, onDevice(at, run), bytes(run, vocabSize));
      } else {
        device.download(from, (long) run * vocabSize, onHost.get(at / segmentRows), first(at));
      }
      done += run;
    }
  }

  /** Stores a row that lies in a Java array. */
  void write(int row, float[] from) {
    if (onDevice != null) {
      device.write(from, 0, vocabSize, onDevice(row, 1), 0);
    } else {
      onHost.get(row / segmentRows).write(first(row), from, 0, vocabSize);
    }
  }

  @Override
  public void load(int row, int count, DeviceBuffer to) {
    int done = 0;
    while (done < count) {
      int at = row + done;
      int run = Math.min(count - done, contiguous(at));
      DeviceBuffer target = to.slice(bytes(done, vocabSize), bytes(run, vocabSize));
      if (onDevice != null) {
        device.copy(onDevice(at, run), target, bytes(run, vocabSize));
      } else {
        float[] values = new float[vocabSize];
        for (int i = 0; i < run; i++) {
          onHost.get((at + i) / segmentRows).read(first(at + i), values, 0, vocabSize);
          device.write(values, 0, vocabSize, target, (long) i * vocabSize);
        }
      }
      done += run;
    }
  }

  /**
   * Copies a row to the host, from any thread.
   *
   * @param to [vocabSize]
   * @throws IllegalStateException if the storage is closed, or gone with its engine
   */
  @Override
  public void read(int row, float[] to) {
    whileOpen(
        () -> {
          if (row < 0 || row >= rows) {
            throw new IndexOutOfBoundsException("row " + row + " of " + rows);
          }
          if (onDevice != null) {
            device.read(onDevice(row, 1), LogitsType.F32, 0, vocabSize, to, 0);
          } else {
            onHost.get(row / segmentRows).read(first(row), to, 0, vocabSize);
          }
        });
  }

  @Override
  public void whileOpen(Runnable action) {
    lock.readLock().lock();
    try {
      requireOpen();
      action.run();
    } finally {
      lock.readLock().unlock();
    }
  }

  /**
   * Copies the rows to a storage of their own in another place, from any thread that may use that
   * device: on the device if it has room, on its host otherwise, with the same values.
   *
   * @param purpose what it is for, named in errors
   * @param onFallback told what the device said when the host takes its place
   * @throws OutOfHostMemoryException if neither has room; nothing is held then
   * @throws IllegalStateException if this storage is closed, or gone with its engine
   */
  public FullLogits copyTo(
      LogitsDevice target, String purpose, Consumer<OutOfDeviceMemoryException> onFallback) {
    requireOpen();
    FullLogits copy = prepare(target, rows, vocabSize, purpose, onFallback);
    try {
      float[] values = new float[vocabSize];
      for (int row = 0; row < rows; row++) {
        read(row, values);
        copy.write(row, values);
      }
      return copy;
    } catch (RuntimeException | Error e) {
      copy.close();
      throw e;
    }
  }

  /**
   * Throws {@link IllegalStateException}, with the reason, once the storage is closed or gone with
   * its engine.
   */
  public void requireOpen() {
    String why = closed;
    if (why != null) {
      throw new IllegalStateException(why);
    }
  }

  /** Called once, by whatever closes the storage. */
  void onClose(Consumer<FullLogits> action) {
    onClose = action;
  }

  /** Frees the memory; closing twice is harmless. */
  @Override
  public void close() {
    close("These logits are closed");
  }

  /** Frees the memory, and says why to those who read later. */
  public void close(String why) {
    lock.writeLock().lock();
    try {
      if (closed != null) {
        return;
      }
      closed = why;
      if (onDevice != null) {
        onDevice.forEach(DeviceBuffer::close);
      } else {
        onHost.forEach(HostBuffer::close);
      }
    } finally {
      lock.writeLock().unlock();
    }
    onClose.accept(this);
  }

  private long first(int row) {
    return (long) (row % segmentRows) * vocabSize;
  }
}
