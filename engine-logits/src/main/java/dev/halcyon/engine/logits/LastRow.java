package dev.halcyon.engine.logits;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The way of a prompt's last row to the host, while its tiles are projected: each part is widened
 * to float32 and copied beside what is computed next, so that little is left to do behind the last
 * one. For the owner thread.
 */
final class LastRow implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(LastRow.class);

  private final LogitsDevice device;
  private final DeviceBuffer widened;
  private final int vocabSize;

  /** Null if the host had no room; the row is then read at the end. */
  private final HostBuffer host;

  private float[] values;

  /** Columns that are on their way to the host, and those that are in the array. */
  private int sent;

  private int read;

  /**
   * @param widened [vocabSize] of float32, for the row's way
   */
  LastRow(LogitsDevice device, DeviceBuffer widened, int vocabSize) {
    this.device = device;
    this.widened = widened;
    this.vocabSize = vocabSize;
    this.host = allocate();
  }

  private HostBuffer allocate() {
    try {
      return device.hostMemory().allocate(FullLogits.bytes(1, vocabSize), "a last row of logits");
    } catch (OutOfHostMemoryException e) {
      LOG.debug("Last rows of logits are read from the device: {}", e.getMessage());
      return null;
    }
  }

  /** Begins a row; one that was begun before is given up. */
  void begin() {
    values = new float[vocabSize];
    sent = 0;
    read = 0;
  }

  /**
   * Takes the next columns.
   *
   * @param part their logits
   * @param type as the head put them out
   */
  void take(DeviceBuffer part, LogitsType type, int columns) {
    DeviceBuffer place = widened.slice((long) sent * Float.BYTES, (long) columns * Float.BYTES);
    device.toFloat32(part, type, columns, place);
    if (host != null) {
      device.download(place, columns, host, sent);
    }
    sent += columns;
  }

  /** Copies what was taken to the array, while the device works on what was called since. */
  void advance() {
    if (host != null) {
      host.read(read, values, read, sent - read);
      read = sent;
    }
  }

  /** All columns, which were taken before: the caller's. */
  float[] end() {
    if (host != null) {
      advance();
    } else {
      device.read(widened, LogitsType.F32, 0, vocabSize, values, 0);
    }
    float[] row = values;
    values = null;
    return row;
  }

  @Override
  public void close() {
    if (host != null) {
      host.close();
    }
  }
}
