package dev.halcyon.engine.logits;

import java.util.Arrays;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The way of rows that are wanted as logprobs alone, and are too many to lie in memory whole: a
 * tile of the vocabulary after the other for all of them. A projection of few rows reads all
 * weights for little work; here each weight is read once for as many rows as a step has.
 */
final class TiledProjection {

  /** Narrower tiles leave products and reductions too little to do. */
  static final int LEAST_COLUMNS = 4096;

  private static final Logger LOG = LoggerFactory.getLogger(TiledProjection.class);

  private final LmHead head;
  private final LogitsDevice device;
  private final ResidentWorkspace resident;
  private final long bytes;
  private final int leastColumns;

  /**
   * @param resident the memory of all but the tile
   * @param bytes the most that a tile may take
   * @param leastColumns the fewest columns of a tile
   */
  TiledProjection(
      LmHead head, LogitsDevice device, ResidentWorkspace resident, long bytes, int leastColumns) {
    this.head = head;
    this.device = device;
    this.resident = resident;
    this.bytes = bytes;
    this.leastColumns = leastColumns;
  }

  /** Whether any rows can go this way; heads that put out float32 have no such workspace. */
  private boolean possible() {
    return head.tiled() != null && resident.conversion() != null;
  }

  /**
   * Projects and reduces a request's next rows.
   *
   * @param hidden [rows, hiddenSize]
   * @param last gets a copy of the last row, if all rows are taken; or null
   * @return how many rows were taken: none if they are to go another way
   */
  int project(ContextLogits target, DeviceBuffer hidden, int rows, DeviceBuffer last) {
    if (!possible() || target.full() != null || target.logprobs() == null) {
      return 0;
    }
    int count = Math.min(rows, mostRows());
    int columns = columns(count, bytes);
    while (columns >= leastColumns && columns < head.vocabSize()) {
      try (DeviceBuffer tile = allocate(count, columns)) {
        boolean ends = target.scored() + count == target.promptLength();
        DeviceBuffer kept = count == rows && last != null ? last : ends ? lastRow() : null;
        return project(target, hidden, count, columns, tile, kept) ? count : 0;
      } catch (OutOfDeviceMemoryException e) {
        LOG.debug("No room for tiles of {} x {}: {}", count, columns, e.getMessage());
        columns = columns(count, (long) count * columns * head.outputType().bytes() / 2);
      }
    }
    return 0;
  }

  /**
   * Projects hidden rows to a tile as large as those of so many rows, and keeps nothing: a device
   * that chooses how to project by trying does so now.
   */
  void tryOut(DeviceBuffer hidden, int rows) {
    if (!possible()) {
      return;
    }
    int count = Math.min(rows, mostRows());
    int columns = columns(count, bytes);
    if (columns < leastColumns || columns >= head.vocabSize()) {
      return;
    }
    try (DeviceBuffer tile = allocate(count, columns)) {
      head.tiled().project(hidden, count, 0, columns, tile);
    } catch (OutOfDeviceMemoryException e) {
      LOG.debug("No room to try tiles of {} x {}: {}", count, columns, e.getMessage());
    }
  }

  private int mostRows() {
    long size = head.outputType().bytes();
    long room = resident.conversion().bytes() - lastRow().bytes() - widenedRow().bytes();
    long bounded = room / (2 * size);
    return (int) Math.max(1, Math.min(bounded, bytes / (leastColumns * size)));
  }

  private DeviceBuffer allocate(int rows, int columns) {
    long size = head.outputType().bytes();
    return device.memory().allocateUninitialized(rows * size * columns, "tile of logits");
  }

  /** Where a row of the head's type is kept. */
  private DeviceBuffer lastRow() {
    return resident.conversion().slice(0, (long) head.vocabSize() * head.outputType().bytes());
  }

  /** Where it is widened to float32: the last row of the conversion's. */
  private DeviceBuffer widenedRow() {
    long bytes = FullLogits.bytes(1, head.vocabSize());
    return resident.conversion().slice(resident.conversion().bytes() - bytes, bytes);
  }

  /** Where the bounds of rows lie, behind the kept one. */
  private DeviceBuffer bounds(int rows) {
    return resident.conversion().slice(lastRow().bytes(), 2L * rows * head.outputType().bytes());
  }

  /** The columns of tiles of one size that take at most so many bytes each, as few as can be. */
  private int columns(int rows, long most) {
    long widest = most / ((long) rows * head.outputType().bytes());
    widest -= widest % TileReduction.COLUMNS;
    if (widest == 0 || widest >= head.vocabSize()) {
      return (int) Math.min(widest, head.vocabSize());
    }
    long tiles = (head.vocabSize() + widest - 1) / widest;
    long each = (head.vocabSize() + tiles - 1) / tiles;
    long rounded =
        (each + TileReduction.COLUMNS - 1) / TileReduction.COLUMNS * TileReduction.COLUMNS;
    return (int) Math.min(widest, rounded);
  }

  /**
   * @param kept gets a copy of the last row; null if nobody wants it
   * @return false if the device takes whole rows only
   */
  private boolean project(
      ContextLogits target,
      DeviceBuffer hidden,
      int rows,
      int columns,
      DeviceBuffer tile,
      DeviceBuffer kept) {
    PromptLogprobs out = target.logprobs();
    DeviceBuffer bounds = bounds(rows);
    int first = target.scored();
    int vocabSize = head.vocabSize();
    TileReduction reduction =
        device.reduceTiles(head.outputType(), rows, vocabSize, out, first, bounds);
    if (reduction == null) {
      return false;
    }
    int done = 0;
    while (done < vocabSize) {
      int column = Math.min(done, vocabSize - columns);
      head.tiled().project(hidden, rows, column, columns, tile);
      if (done == 0) {
        // Behind the first product, so that the device has begun by then.
        int[] targets = new int[rows];
        Arrays.setAll(targets, row -> out.target(first + row));
        head.tiled().bound(hidden, rows, targets, bounds);
      }
      if (kept != null) {
        keep(tile, rows - 1, column, columns, kept);
      }
      reduction.reduce(tile, column, columns);
      done = column + columns;
    }
    // While the device works.
    float[] last = first + rows < target.promptLength() ? null : new float[vocabSize];
    for (int row : reduction.finish()) {
      reduceWhole(target, hidden, row);
    }
    if (last != null) {
      readKept(kept, last);
    }
    target.acceptReduced(rows, last);
    return true;
  }

  private void keep(DeviceBuffer tile, int row, int column, int columns, DeviceBuffer kept) {
    long size = head.outputType().bytes();
    long run = columns * size;
    device.copy(tile.slice(row * run, run), kept.slice(column * size, run), run);
  }

  /** What another product of the same vectors did not foresee. */
  private void reduceWhole(ContextLogits target, DeviceBuffer hidden, int row) {
    long rowBytes = (long) head.hiddenSize() * head.hiddenElementBytes();
    target.reduceAhead(
        resident.projection().project(hidden.slice(row * rowBytes, rowBytes), 1), row);
  }

  /** Copies the kept row to the host; the device widens it many times faster. */
  private void readKept(DeviceBuffer kept, float[] to) {
    device.toFloat32(kept, head.outputType(), to.length, widenedRow());
    device.read(widenedRow(), LogitsType.F32, 0, to.length, to, 0);
  }
}
