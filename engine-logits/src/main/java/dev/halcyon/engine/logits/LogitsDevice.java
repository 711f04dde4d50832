package dev.halcyon.engine.logits;

/**
 * What bounded logits need of a device besides the projection: memory, copies, conversion and the
 * logprob reduction. Rows are dense and row-major from a buffer's start.
 *
 * <p>Operations take effect in the order in which they are called, by one thread, the owner. {@link
 * #read} alone may be called by any thread, for buffers that nothing writes to any more.
 */
public interface LogitsDevice {

  /** Where device buffers come from. */
  DeviceMemory memory();

  /** Where host buffers come from. */
  HostMemory hostMemory();

  /** to[i] = from[i] as float32, for {@code count} elements. */
  void toFloat32(DeviceBuffer from, LogitsType type, long count, DeviceBuffer to);

  /** Copies the first {@code bytes} bytes; the buffers don't overlap. */
  void copy(DeviceBuffer from, DeviceBuffer to, long bytes);

  /**
   * Copies float32 elements to the host: whoever reads {@code to} from now on sees them, and {@code
   * from} may be written to or closed at once. The copying itself may go on beside what is called
   * next.
   *
   * @param toFirst index of the first element written
   */
  void download(DeviceBuffer from, long count, HostBuffer to, long toFirst);

  /**
   * Copies float32 elements of a Java array to the device; the array may be changed on return.
   *
   * @param first index of the first element written
   */
  void write(float[] from, int fromIndex, int count, DeviceBuffer to, long first);

  /**
   * Copies elements to a Java array as float32, complete on return. Any thread may call it.
   *
   * @param first index of the first element
   */
  void read(DeviceBuffer from, LogitsType type, long first, int count, float[] to, int toIndex);

  /**
   * Joins the columns of several ranks: {@code out[row, rank * cols + i] = shards[rank, row, i]}.
   *
   * @param shards [ranks, rows, cols]
   * @param out [rows, ranks * cols]
   */
  void joinShards(
      DeviceBuffer shards, LogitsType type, int ranks, int rows, int cols, DeviceBuffer out);

  /**
   * Reduces rows of logits to what a caller of prompt logprobs gets: for row r, entry {@code
   * firstEntry + r} of {@code out} is set once {@link #awaitReductions} returns. The rows may be
   * overwritten or freed before that, by operations called later. The reduction is a log-softmax in
   * float32 with the maximum subtracted.
   *
   * @param logits [rows, cols]
   * @param type float32, or what heads on this device put out
   * @throws OutOfDeviceMemoryException if the device has no room for the reduction; no entry of
   *     these rows counts as set then, and the caller repeats it on the host
   */
  void reduce(
      DeviceBuffer logits, LogitsType type, int rows, int cols, PromptLogprobs out, int firstEntry);

  /** Waits for all reductions called, or finished, so far: their entries are set on return. */
  void awaitReductions();

  /**
   * Begins to reduce rows that come a tile of the vocabulary after the other, to what {@link
   * #reduce} makes of whole ones.
   *
   * @param type what heads on this device put out
   * @param cols the columns of all tiles together
   * @param bounds [2, rows] of {@code type}: what is known of the logits of the tokens that rows
   *     score, see {@link TiledHead#bound}; to be there before the first tile is reduced, and left
   *     alone until the reduction is finished
   * @return null if rows of this type, or lists as long as {@code out}'s, have to be reduced whole
   * @throws OutOfDeviceMemoryException if the device has no room for the reduction
   */
  default TileReduction reduceTiles(
      LogitsType type,
      int rows,
      int cols,
      PromptLogprobs out,
      int firstEntry,
      DeviceBuffer bounds) {
    return null;
  }
}
