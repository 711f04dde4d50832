package dev.halcyon.engine.logits;

import java.util.Arrays;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The way of rows that are wanted as logprobs alone, and are too many to lie in memory whole: a
 * tile of the vocabulary after the other for all of them. A projection of few rows reads all
 * weights for little work; here each weight is read once for as many rows as a step has.
 */
final class TiledProjection implements AutoCloseable {

  /** Narrower tiles leave products and reductions too little to do. */
  static final int LEAST_COLUMNS = 4096;

  private static final Logger LOG = LoggerFactory.getLogger(TiledProjection.class);

  private final LmHead head;
  private final LogitsDevice device;
  private final ResidentWorkspace resident;
  private final long bytes;
  private final int leastColumns;

  /** Null where no rows can go this way. */
  private final LastRow lastRow;

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
    this.lastRow = possible() ? new LastRow(device, widenedRow(), head.vocabSize()) : null;
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
      try {
        DeviceBuffer copy = count == rows ? last : null;
        return project(target, hidden, count, columns, copy) ? count : 0;
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
    long bounded = (resident.conversion().bytes() - widenedRow().bytes()) / (2 * size);
    return (int) Math.max(1, Math.min(bounded, bytes / (leastColumns * size)));
  }

  private DeviceBuffer allocate(int rows, int columns) {
    long size = head.outputType().bytes();
    return device.memory().allocateUninitialized(rows * size * columns, "tile of logits");
  }

  /** Where the prompt's last row is widened: the last row of the conversion's. */
  private DeviceBuffer widenedRow() {
    long bytes = FullLogits.bytes(1, head.vocabSize());
    return resident.conversion().slice(resident.conversion().bytes() - bytes, bytes);
  }

  /** Where the bounds of rows lie, before that. */
  private DeviceBuffer bounds(int rows) {
    return resident.conversion().slice(0, 2L * rows * head.outputType().bytes());
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
   * @param last gets a copy of the last row; null if nobody wants it
   * @return false if the device takes whole rows only
   */
  private boolean project(
      ContextLogits target, DeviceBuffer hidden, int rows, int columns, DeviceBuffer last) {
    TileReduction reduction =
        device.reduceTiles(
            head.outputType(),
            rows,
            head.vocabSize(),
            target.logprobs(),
            target.scored(),
            bounds(rows));
    if (reduction == null) {
      return false;
    }
    // Given back before the wait, as operations called later may have it.
    try (DeviceBuffer tile = allocate(rows, columns)) {
      reduce(target, hidden, rows, columns, tile, last, reduction);
    }
    for (int row : reduction.finish()) {
      reduceWhole(target, hidden, row);
    }
    target.acceptReduced(rows, ends(target, rows) ? lastRow.end() : null);
    return true;
  }

  /** Whether the next rows are a prompt's last ones. */
  private static boolean ends(ContextLogits target, int rows) {
    return target.scored() + rows == target.promptLength();
  }

  /**
   * Calls for all that a reduction takes, and waits for nothing.
   *
   * @param last gets a copy of the last row; null if nobody wants it
   */
  private void reduce(
      ContextLogits target,
      DeviceBuffer hidden,
      int rows,
      int columns,
      DeviceBuffer tile,
      DeviceBuffer last,
      TileReduction reduction) {
    PromptLogprobs out = target.logprobs();
    int first = target.scored();
    boolean ends = ends(target, rows);
    int vocabSize = head.vocabSize();
    int done = 0;
    while (done < vocabSize) {
      int column = Math.min(done, vocabSize - columns);
      head.tiled().project(hidden, rows, column, columns, tile);
      if (done == 0) {
        // Behind the first product, so that the device has begun by then.
        int[] targets = new int[rows];
        Arrays.setAll(targets, row -> out.target(first + row));
        head.tiled().bound(hidden, rows, targets, bounds(rows));
        if (ends) {
          lastRow.begin();
        }
      } else if (ends) {
        lastRow.advance();
      }
      keep(newOfLastRow(tile, rows, columns, done - column), done, last, ends);
      reduction.reduce(tile, column, columns);
      done = column + columns;
    }
  }

  /**
   * @param known the columns of a tile that one before has too
   */
  private DeviceBuffer newOfLastRow(DeviceBuffer tile, int rows, int columns, int known) {
    long size = head.outputType().bytes();
    return tile.slice(((rows - 1L) * columns + known) * size, (columns - known) * size);
  }

  private void keep(DeviceBuffer part, int column, DeviceBuffer last, boolean ends) {
    long size = head.outputType().bytes();
    if (last != null) {
      device.copy(part, last.slice(column * size, part.bytes()), part.bytes());
    }
    if (ends) {
      lastRow.take(part, head.outputType(), (int) (part.bytes() / size));
    }
  }

  /** What another product of the same vectors did not foresee. */
  private void reduceWhole(ContextLogits target, DeviceBuffer hidden, int row) {
    long rowBytes = (long) head.hiddenSize() * head.hiddenElementBytes();
    target.reduceAhead(
        resident.projection().project(hidden.slice(row * rowBytes, rowBytes), 1), row);
  }

  @Override
  public void close() {
    if (lastRow != null) {
      lastRow.close();
    }
  }
}
