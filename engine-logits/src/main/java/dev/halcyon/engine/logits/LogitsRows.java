package dev.halcyon.engine.logits;

/** Rows of logits that lie somewhere: on the device in some type, or on the host. */
interface LogitsRows {

  /** The number of rows. */
  int rows();

  /** The elements of a row. */
  int vocabSize();

  /** The type of what {@link #onDevice} gives. */
  LogitsType type();

  /**
   * Rows as they lie on the device, or null if they don't.
   *
   * @param count at most {@link #contiguous(int)}
   */
  DeviceBuffer onDevice(int row, int count);

  /** How many rows from {@code row} on lie next to each other. */
  int contiguous(int row);

  /** Does something with the rows that lets nobody close them meanwhile. */
  default void whileOpen(Runnable action) {
    action.run();
  }

  /** Puts rows into a device buffer [count, vocabSize] of float32. */
  void load(int row, int count, DeviceBuffer to);

  /**
   * Copies a row to the host.
   *
   * @param to [vocabSize]
   */
  void read(int row, float[] to);
}
