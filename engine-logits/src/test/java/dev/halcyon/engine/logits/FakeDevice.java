package dev.halcyon.engine.logits;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;

/**
 * A device in Java arrays that does its work as late as the interface lets it: whatever isn't
 * complete on return waits until something is, and then happens in order.
 */
final class FakeDevice implements LogitsDevice {

  final FakeMemory memory = new FakeMemory(this::complete);
  final FakeHostMemory host = new FakeHostMemory();

  /** What was done, as "operation rows". */
  final List<String> log = new ArrayList<>();

  private final Queue<Runnable> pending = new ArrayDeque<>();
  private final List<Runnable> reduced = new ArrayList<>();
  private boolean reductionAllocates;
  private boolean reducesTiles = true;

  /** Lets a reduction allocate device memory of its own, and spoil its entries if it can't. */
  void reductionAllocates() {
    reductionAllocates = true;
  }

  /** Lets it reduce whole rows only. */
  void reducesNoTiles() {
    reducesTiles = false;
  }

  /** Does something later, after what is pending. */
  void enqueue(Runnable operation) {
    synchronized (pending) {
      pending.add(operation);
    }
  }

  /** Does what is pending. */
  void complete() {
    synchronized (pending) {
      for (Runnable next = pending.poll(); next != null; next = pending.poll()) {
        next.run();
      }
    }
  }

  /** The row counts of the operations of a name, in order. */
  List<Integer> counts(String operation) {
    return log.stream()
        .filter(line -> line.startsWith(operation + " "))
        .map(line -> Integer.valueOf(line.substring(operation.length() + 1)))
        .toList();
  }

  /** A buffer that holds some elements. */
  DeviceBuffer upload(LogitsType type, float[] values) {
    DeviceBuffer buffer = memory.allocate((long) values.length * type.bytes(), "test");
    FakeMemory.use(
        buffer,
        bytes -> {
          for (int i = 0; i < values.length; i++) {
            Elements.put(bytes, i * type.bytes(), type, values[i]);
          }
        });
    return buffer;
  }

  @Override
  public DeviceMemory memory() {
    return memory;
  }

  @Override
  public HostMemory hostMemory() {
    return host;
  }

  @Override
  public void toFloat32(DeviceBuffer from, LogitsType type, long count, DeviceBuffer to) {
    enqueue(
        () ->
            FakeMemory.use(
                from,
                source ->
                    FakeMemory.use(
                        to,
                        target -> {
                          for (int i = 0; i < count; i++) {
                            float value = Elements.get(source, i * type.bytes(), type);
                            target.putFloat(i * Float.BYTES, value);
                          }
                        })));
  }

  @Override
  public void copy(DeviceBuffer from, DeviceBuffer to, long bytes) {
    enqueue(
        () ->
            FakeMemory.use(
                from,
                source -> FakeMemory.use(to, target -> target.put(source.limit((int) bytes)))));
  }

  @Override
  public void download(DeviceBuffer from, long count, HostBuffer to, long toFirst) {
    log.add("download " + count);
    float[] values = new float[Math.toIntExact(count)];
    read(from, LogitsType.F32, 0, values.length, values, 0);
    to.write(toFirst, values, 0, values.length);
  }

  @Override
  public void write(float[] from, int fromIndex, int count, DeviceBuffer to, long first) {
    complete();
    FakeMemory.use(
        to,
        target ->
            target
                .position(Math.toIntExact(first * Float.BYTES))
                .slice()
                .order(target.order())
                .asFloatBuffer()
                .put(from, fromIndex, count));
  }

  @Override
  public void read(
      DeviceBuffer from, LogitsType type, long first, int count, float[] to, int toIndex) {
    complete();
    FakeMemory.use(
        from,
        source -> {
          int start = Math.toIntExact(first * type.bytes());
          for (int i = 0; i < count; i++) {
            to[toIndex + i] = Elements.get(source, start + i * type.bytes(), type);
          }
        });
  }

  @Override
  public void joinShards(
      DeviceBuffer shards, LogitsType type, int ranks, int rows, int cols, DeviceBuffer out) {
    int part = cols * type.bytes();
    enqueue(
        () ->
            FakeMemory.use(
                shards,
                source ->
                    FakeMemory.use(
                        out,
                        target -> {
                          for (int rank = 0; rank < ranks; rank++) {
                            for (int row = 0; row < rows; row++) {
                              int from = (rank * rows + row) * part;
                              target.put((row * ranks + rank) * part, source, from, part);
                            }
                          }
                        })));
  }

  @Override
  public void reduce(
      DeviceBuffer logits,
      LogitsType type,
      int rows,
      int cols,
      PromptLogprobs out,
      int firstEntry) {
    if (reductionAllocates) {
      try {
        allocateForReduction(rows);
      } catch (OutOfDeviceMemoryException e) {
        for (int row = 0; row < rows; row++) {
          out.setTarget(firstEntry + row, Float.NaN, -1);
          if (out.target(firstEntry + row) == PromptLogprobs.UNKNOWN) {
            out.setLastNormalizer(Float.NaN, Double.NaN);
          }
        }
        throw e;
      }
    }
    log.add("reduce " + rows);
    enqueue(
        () ->
            FakeMemory.use(
                logits,
                source -> {
                  for (int i = 0; i < rows; i++) {
                    float[] row = new float[cols];
                    for (int j = 0; j < cols; j++) {
                      row[j] = Elements.get(source, (i * cols + j) * type.bytes(), type);
                    }
                    int entry = firstEntry + i;
                    reduced.add(() -> new RowLogprobs(row).setEntry(out, entry));
                  }
                }));
  }

  @Override
  public void awaitReductions() {
    complete();
    reduced.forEach(Runnable::run);
    reduced.clear();
  }

  private void allocateForReduction(int rows) {
    memory.allocate(rows * 12L, "reduction").close();
  }

  @Override
  public TileReduction reduceTiles(
      LogitsType type,
      int rows,
      int cols,
      PromptLogprobs out,
      int firstEntry,
      DeviceBuffer bounds) {
    if (!reducesTiles) {
      return null;
    }
    if (reductionAllocates) {
      allocateForReduction(rows);
    }
    return new Tiles(type, rows, cols, out, firstEntry, bounds);
  }

  /** Puts rows together, and reduces those that are within their bounds. */
  private final class Tiles implements TileReduction {

    private final LogitsType type;
    private final PromptLogprobs out;
    private final int firstEntry;
    private final DeviceBuffer bounds;
    private final float[][] rows;
    private final int cols;
    private int done;

    /** What was held at the last tile, but for itself. */
    private long heldBeside;

    Tiles(
        LogitsType type,
        int rows,
        int cols,
        PromptLogprobs out,
        int firstEntry,
        DeviceBuffer bounds) {
      this.type = type;
      this.out = out;
      this.firstEntry = firstEntry;
      this.bounds = bounds;
      this.rows = new float[rows][cols];
      this.cols = cols;
    }

    @Override
    public void reduce(DeviceBuffer logits, int firstColumn, int columns) {
      if (firstColumn > done || firstColumn + columns <= done || firstColumn + columns > cols) {
        throw new IllegalArgumentException(columns + " from " + firstColumn + " after " + done);
      }
      int skip = done - firstColumn;
      done = firstColumn + columns;
      heldBeside = memory.used() - logits.bytes();
      enqueue(
          () ->
              FakeMemory.use(
                  logits,
                  source -> {
                    for (int row = 0; row < rows.length; row++) {
                      for (int i = skip; i < columns; i++) {
                        int at = (row * columns + i) * type.bytes();
                        rows[row][firstColumn + i] = Elements.get(source, at, type);
                        Elements.put(source, at, type, Float.NaN);
                      }
                    }
                  }));
    }

    @Override
    public int[] finish() {
      if (done != cols) {
        throw new IllegalStateException(done + " of " + cols);
      }
      log.add("wait " + (memory.used() - heldBeside));
      List<Integer> outside = new ArrayList<>();
      enqueue(
          () ->
              FakeMemory.use(
                  bounds,
                  source -> {
                    for (int row = 0; row < rows.length; row++) {
                      float low = Elements.get(source, row * type.bytes(), type);
                      float high = Elements.get(source, (rows.length + row) * type.bytes(), type);
                      int target = out.target(firstEntry + row);
                      if (target >= 0 && (rows[row][target] < low || rows[row][target] > high)) {
                        outside.add(row);
                        out.setTarget(firstEntry + row, Float.NaN, -1);
                      } else {
                        float[] reducedRow = rows[row];
                        int entry = firstEntry + row;
                        reduced.add(() -> new RowLogprobs(reducedRow).setEntry(out, entry));
                      }
                    }
                  }));
      complete();
      return outside.stream().mapToInt(row -> row).toArray();
    }
  }
}
