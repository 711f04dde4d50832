package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.backend.DeviceBatch;
import dev.halcyon.engine.backend.StepLimits;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Brings the batches of steps to the device and runs their bodies. Once limits are known, steps in
 * which each sequence has one row are padded to a few sizes, and run from graphs where these are
 * wanted: padding is the same with and without, so that results are too.
 */
final class Steps implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(Steps.class);

  private final BatchUploader batches;
  private final DecodeBatches decodeBatches;
  private final StepGraphs graphs;
  private final boolean recorded;

  /** What was uploaded last, as it is and as a body gets it. */
  private CudaBatch last;

  private CudaBatch padded;

  /**
   * @param recorded whether graphs are wanted
   */
  Steps(CudaContext context, CudaMemory memory, UploadRing ring, boolean recorded) {
    batches = new BatchUploader(memory, ring);
    decodeBatches = new DecodeBatches(memory, ring);
    graphs = new StepGraphs(context, memory);
    this.recorded = recorded;
  }

  CudaBatch upload(Batch batch, int blockSize) {
    batch.requireConsistent();
    if (decodeBatches.takes(batch, blockSize)) {
      padded = decodeBatches.upload(batch, blockSize);
      last = padded.with(batch);
    } else {
      padded = null;
      last = batches.upload(batch, blockSize);
    }
    return last;
  }

  void run(CudaBatch batch, Consumer<DeviceBatch> body) {
    if (batch != last || padded == null) {
      body.accept(batch);
    } else {
      graphs.run(padded, body);
    }
  }

  /**
   * Runs the largest step, and one of each size that algorithms are chosen for; then, when nothing
   * will move any more, records the steps that graphs are for.
   */
  void warmUp(StepLimits limits, int blockSize, Tuning tuning, Consumer<Batch> step) {
    int blocks = Groups.ceilDiv(limits.sequenceLength(), blockSize);
    batches.reserve(limits.rows(), limits.sequences(), blocks);
    decodeBatches.reserve(limits.sequences(), blocks);
    List<Integer> prompts = descending(limits.rows(), limits.sequences());
    List<Integer> decodes = descending(limits.sequences(), 0);
    long start = System.nanoTime();
    tuning.run(
        () -> {
          prompts.forEach(rows -> step.accept(prompt(rows, limits, blockSize)));
          decodes.forEach(rows -> step.accept(decode(rows)));
        });
    if (recorded) {
      graphs.recording(true);
      decodes.forEach(rows -> step.accept(decode(rows)));
    }
    LOG.info(
        "Warmed up in {} ms: steps of up to {} rows, {} CUDA graphs for up to {} sequences",
        (System.nanoTime() - start) / 1_000_000,
        limits.rows(),
        graphs.size(),
        limits.sequences());
  }

  /** Runs steps in a way that lets algorithms be chosen by their time, or just runs them. */
  @FunctionalInterface
  interface Tuning {

    void run(Runnable steps);
  }

  /** The largest first: it needs the most memory. It is there even if it is not above the least. */
  private static List<Integer> descending(int most, int above) {
    return RowBuckets.upTo(most).stream()
        .filter(rows -> rows > above || rows == most)
        .sorted(Comparator.reverseOrder())
        .toList();
  }

  /** As few sequences as have so many rows, all in the first block and written nowhere. */
  private static Batch prompt(int rows, StepLimits limits, int blockSize) {
    int sequences = Math.min(limits.sequences(), Groups.ceilDiv(rows, limits.sequenceLength()));
    int used = (int) Math.min(rows, (long) sequences * limits.sequenceLength());
    int[] slots = new int[used];
    Arrays.fill(slots, -1);
    int[] positions = new int[used];
    Arrays.setAll(positions, row -> row % limits.sequenceLength());
    int[] rowStart = new int[sequences + 1];
    Arrays.setAll(rowStart, i -> Math.min(used, i * limits.sequenceLength()));
    int[] lengths = new int[sequences];
    Arrays.setAll(lengths, i -> rowStart[i + 1] - rowStart[i]);
    int[][] tables = new int[sequences][Groups.ceilDiv(limits.sequenceLength(), blockSize)];
    return new Batch(used, new int[used], positions, slots, sequences, rowStart, lengths, tables);
  }

  /** First tokens of sequences, written nowhere. */
  private static Batch decode(int rows) {
    int[] slots = new int[rows];
    Arrays.fill(slots, -1);
    int[] rowStart = new int[rows + 1];
    Arrays.setAll(rowStart, i -> i);
    int[] lengths = new int[rows];
    Arrays.fill(lengths, 1);
    return new Batch(
        rows, new int[rows], new int[rows], slots, rows, rowStart, lengths, new int[rows][1]);
  }

  StepGraphs graphs() {
    return graphs;
  }

  @Override
  public void close() {
    graphs.close();
    decodeBatches.close();
    batches.close();
  }
}
