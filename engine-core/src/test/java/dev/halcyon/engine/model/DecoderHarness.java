package dev.halcyon.engine.model;

import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.backend.KvShape;
import dev.halcyon.engine.backend.KvStorage;
import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.weights.Checkpoint;
import dev.halcyon.engine.weights.LoadProgress;
import dev.halcyon.engine.weights.ModelFiles;
import java.util.ArrayList;
import java.util.List;

/** A decoder that tests feed by hand, without an executor. */
final class DecoderHarness implements AutoCloseable {

  static final int MAX_BATCH_TOKENS = 512;
  private static final int MAX_LOGIT_ROWS = 16;

  private final Backend backend;
  private final Decoder decoder;
  private final int maxLength;

  DecoderHarness(TestBackend computesOn, ModelFiles files, ModelConfig config, int maxLength) {
    this.maxLength = maxLength;
    backend = computesOn.open(1L << 28);
    decoder =
        ModelLoader.load(
            Checkpoint.open(files),
            config,
            backend,
            new DecoderOptions(MAX_BATCH_TOKENS, maxLength, MAX_LOGIT_ROWS),
            LoadProgress.NONE);
  }

  Decoder decoder() {
    return decoder;
  }

  Backend backend() {
    return backend;
  }

  /**
   * Runs sequences together until each is finished.
   *
   * @param chunk how many prompt tokens of a sequence a step takes at most
   * @param blockSize tokens of a block of the KV cache
   */
  void run(List<SequenceRun> sequences, int chunk, int blockSize) {
    int blocksEach = (maxLength + blockSize - 1) / blockSize;
    ModelConfig config = decoder.config();
    KvShape shape =
        new KvShape(
            config.layers().size(),
            blocksEach * sequences.size(),
            blockSize,
            config.kvHeads(),
            config.headDim());
    try (KvStorage kv = backend.allocateKv(shape)) {
      int[][] blockTables = scatteredBlocks(sequences.size(), blocksEach);
      while (!sequences.stream().allMatch(SequenceRun::finished)) {
        step(sequences, chunk, blockSize, blockTables, kv);
      }
    }
  }

  /** Blocks dealt out in turns and from the end, so that none lie in order. */
  private static int[][] scatteredBlocks(int sequences, int blocksEach) {
    int[][] tables = new int[sequences][blocksEach];
    for (int s = 0; s < sequences; s++) {
      for (int b = 0; b < blocksEach; b++) {
        tables[s][b] = sequences * (blocksEach - b) - 1 - s;
      }
    }
    return tables;
  }

  private void step(
      List<SequenceRun> sequences, int chunk, int blockSize, int[][] blockTables, KvStorage kv) {
    List<SequenceRun> running = new ArrayList<>();
    List<int[]> tables = new ArrayList<>();
    int rows = 0;
    for (int s = 0; s < sequences.size(); s++) {
      if (!sequences.get(s).finished()) {
        running.add(sequences.get(s));
        tables.add(blockTables[s]);
        rows += sequences.get(s).rows(chunk);
      }
    }
    Batch batch = pack(running, rows, chunk, blockSize, tables.toArray(int[][]::new));
    DeviceBuffer hidden = decoder.forward(backend.upload(batch), kv, layer -> {});
    List<float[]> logits = project(hidden, rows);
    for (int s = 0; s < running.size(); s++) {
      for (int row = batch.rowStart()[s]; row < batch.rowStart()[s + 1]; row++) {
        running.get(s).accept(logits.get(row));
      }
    }
  }

  private static Batch pack(
      List<SequenceRun> running, int rows, int chunk, int blockSize, int[][] blockTables) {
    int[] tokens = new int[rows];
    int[] positions = new int[rows];
    int[] slots = new int[rows];
    int[] rowStart = new int[running.size() + 1];
    int[] contextLength = new int[running.size()];
    int row = 0;
    for (int s = 0; s < running.size(); s++) {
      SequenceRun run = running.get(s);
      rowStart[s] = row;
      contextLength[s] = run.computed + run.rows(chunk);
      for (int position = run.computed; position < contextLength[s]; position++, row++) {
        tokens[row] = run.tokens[position];
        positions[row] = position;
        slots[row] = blockTables[s][position / blockSize] * blockSize + position % blockSize;
      }
    }
    rowStart[running.size()] = row;
    return new Batch(
        rows, tokens, positions, slots, running.size(), rowStart, contextLength, blockTables);
  }

  private List<float[]> project(DeviceBuffer hidden, int rows) {
    OutputHead head = decoder.head();
    List<float[]> logits = new ArrayList<>();
    for (int first = 0; first < rows; first += head.maxRows()) {
      int count = Math.min(head.maxRows(), rows - first);
      int[] wanted = new int[count];
      for (int i = 0; i < count; i++) {
        wanted[i] = first + i;
      }
      head.projectSamplingRows(hidden, wanted, count);
      for (int i = 0; i < count; i++) {
        float[] row = new float[head.vocabSize()];
        backend.read(head.samplingRows(), (long) i * row.length, row.length, row, 0);
        logits.add(row);
      }
    }
    return logits;
  }

  @Override
  public void close() {
    decoder.close();
    backend.close();
  }
}
