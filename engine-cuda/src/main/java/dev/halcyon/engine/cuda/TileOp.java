package dev.halcyon.engine.cuda;

import dev.halcyon.engine.logits.PromptLogprobs;
import dev.halcyon.engine.logits.TileReduction;
import java.nio.ByteBuffer;

/**
 * Rows of logits to prompt logprobs by tiles of the vocabulary, and bounds of single logits;
 * kernels in vocab_tiles.cu. Exponentials are of float32; those of 32 elements are added up
 * pairwise in float32, and these sums in double precision.
 *
 * <p>The host sets entries while the device works on what comes next, or when they are awaited.
 *
 * <p>Scratch on the device: some 250 bytes for a row, and its result of 32 bytes and 8 for each of
 * its top tokens. Behind the results lie the number of rows whose entries can't be set, so that the
 * host looks at none to learn that there are no such rows, and then the targets.
 */
final class TileOp implements AutoCloseable {

  /** The longest list; as vocab_tiles.cu's TILE_LIST. */
  private static final int LIST = 64;

  /** The bytes of a row between tiles; as vocab_tiles.cu's State. */
  private static final int STATE_BYTES = 248;

  /** The status of a row whose target is outside of its bounds; as vocab_tiles.cu's OUTSIDE. */
  private static final int OUTSIDE = 4;

  private static final int THREADS = 256;
  private static final int WARP = 32;

  private final Launch launch;
  private final UploadRing uploads;
  private final Kernel reduce;
  private final Kernel bound;
  private final DeviceScratch columns;
  private final DeviceScratch scratch;

  /** They take turns, so that entries are set from one while the other receives what comes next. */
  private final ResultBlock[] blocks;

  private int turn;
  private Waiting waiting;

  /** Results on the host, of rows whose entries are to be set. */
  private record Waiting(ByteBuffer results, int rows, PromptLogprobs out, int firstEntry) {

    void setEntries() {
      int bytes = RowReduction.resultBytes(out.topK());
      for (int row = 0; row < rows; row++) {
        if (RowResult.status(results, row * bytes) != OUTSIDE) {
          RowResult.setEntry(results, row * bytes, out, firstEntry + row);
        }
      }
    }
  }

  TileOp(
      KernelLibrary library,
      Launch launch,
      UploadRing uploads,
      CudaContext context,
      CudaMemory memory) {
    this.launch = launch;
    this.uploads = uploads;
    reduce = library.kernel(KernelSource.VOCAB_TILES, "reduce_tile");
    bound = library.kernel(KernelSource.VOCAB_TILES, "bound_products");
    columns = new DeviceScratch(memory, "columns to bound");
    scratch = new DeviceScratch(memory, "reduction of tiles");
    blocks = new ResultBlock[] {new ResultBlock(context), new ResultBlock(context)};
  }

  /**
   * Bounds products of rows with rows of weights.
   *
   * @param targets the row of weights for each row; negative for none
   * @param out the address of [2, rows]
   */
  void bound(long x, int rows, CudaMatrix weight, int[] targets, long out) {
    long list = columns.atLeast((long) rows * Integer.BYTES);
    uploads.to(list).ints(targets, 0, rows).end();
    launch
        .of(bound)
        .address(x)
        .address(weight.address())
        .i32(weight.cols())
        .address(list)
        .i32(rows)
        .address(out)
        .run((rows + THREADS / WARP - 1) / (THREADS / WARP), THREADS);
  }

  /** Whether lists of so many tokens can be made of tiles. */
  static boolean takes(int top) {
    return top <= LIST;
  }

  /**
   * Begins a reduction, which ends the one before.
   *
   * @param bounds the address of [2, rows]
   * @throws dev.halcyon.engine.logits.OutOfDeviceMemoryException if there is no room for scratch
   */
  Reduction begin(int rows, int cols, PromptLogprobs out, int firstEntry, long bounds) {
    int resultBytes = RowReduction.resultBytes(out.topK());
    long states =
        scratch.atLeast((long) rows * (STATE_BYTES + resultBytes + Integer.BYTES) + Integer.BYTES);
    long results = states + (long) rows * STATE_BYTES;
    return new Reduction(rows, cols, out, firstEntry, bounds, states, results);
  }

  /** Some rows' reduction; addresses are on the device. */
  final class Reduction {

    private final int rows;
    private final int cols;
    private final PromptLogprobs out;
    private final int firstEntry;
    private final long bounds;
    private final long states;
    private final long results;
    private final int resultBytes;
    private final int allResultBytes;
    private int done;

    private Reduction(
        int rows,
        int cols,
        PromptLogprobs out,
        int firstEntry,
        long bounds,
        long states,
        long results) {
      this.rows = rows;
      this.cols = cols;
      this.out = out;
      this.firstEntry = firstEntry;
      this.bounds = bounds;
      this.states = states;
      this.results = results;
      this.resultBytes = RowReduction.resultBytes(out.topK());
      this.allResultBytes = Math.multiplyExact(rows, resultBytes);
    }

    int rows() {
      return rows;
    }

    /** Requires that a tile is the next one. */
    void requireNext(int firstColumn, int columns) {
      boolean next = firstColumn >= 0 && firstColumn <= done && columns > done - firstColumn;
      if (!next || columns > cols - firstColumn || columns % TileReduction.COLUMNS != 0) {
        throw new IllegalArgumentException(
            columns + " columns from " + firstColumn + " after " + done + " of " + cols);
      }
    }

    /**
     * @param logits the address of [rows, columns]
     */
    void reduce(long logits, int firstColumn, int columns) {
      long outside = results + allResultBytes;
      if (done == 0) {
        int[] ids = new int[1 + rows];
        for (int row = 0; row < rows; row++) {
          ids[1 + row] = Math.max(-1, out.target(firstEntry + row));
        }
        uploads.to(outside).ints(ids, 0, ids.length).end();
      }
      int end = firstColumn + columns;
      launch
          .of(reduce)
          .i64(logits)
          .i64(outside)
          .i64(bounds)
          .i64(states)
          .i64(results)
          .i32(resultBytes)
          .i32(columns)
          .i32(firstColumn)
          .i32(done - firstColumn)
          .i32(out.topK())
          .i32(done == 0 ? 1 : 0)
          .i32(end == cols ? 1 : 0)
          .run(rows, THREADS);
      done = end;
    }

    /** Waits; returns the rows whose entries can't be set. */
    int[] finish() {
      if (done < cols) {
        throw new IllegalStateException(done + " of " + cols + " columns are reduced");
      }
      // While the device works.
      await();
      ByteBuffer read = blocks[turn].download(results, allResultBytes + Integer.BYTES);
      turn ^= 1;
      waiting = new Waiting(read, rows, out, firstEntry);
      int[] outside = new int[read.getInt(allResultBytes)];
      for (int row = 0, found = 0; found < outside.length; row++) {
        if (RowResult.status(read, row * resultBytes) == OUTSIDE) {
          outside[found++] = row;
        }
      }
      return outside;
    }
  }

  /** Sets the entries of what was finished. */
  void await() {
    if (waiting != null) {
      Waiting now = waiting;
      waiting = null;
      now.setEntries();
    }
  }

  @Override
  public void close() {
    columns.close();
    scratch.close();
    for (ResultBlock block : blocks) {
      block.close();
    }
  }
}
