package dev.halcyon.engine.logits;

/**
 * Rows of logits as a head put them out, on the device.
 *
 * @param buffer [rows, vocabSize] of {@code type}
 */
record DeviceRows(
    LogitsDevice device, DeviceBuffer buffer, LogitsType type, int rows, int vocabSize)
    implements LogitsRows {

  @Override
  public DeviceBuffer onDevice(int row, int count) {
    return slice(row, count);
  }

  @Override
  public int contiguous(int row) {
    return rows - row;
  }

  @Override
  public void load(int row, int count, DeviceBuffer to) {
    device.toFloat32(slice(row, count), type, (long) count * vocabSize, to);
  }

  @Override
  public void read(int row, float[] to) {
    device.read(buffer, type, (long) row * vocabSize, vocabSize, to, 0);
  }

  /** A row as the head put it out. */
  DeviceBuffer slice(int row, int count) {
    long rowBytes = (long) vocabSize * type.bytes();
    return buffer.slice(row * rowBytes, count * rowBytes);
  }
}
