package dev.halcyon.engine.executor;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.backend.DeviceBatch;
import dev.halcyon.engine.backend.KvStorage;
import dev.halcyon.engine.executor.StepPlan.Chunk;
import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.model.Decoder;
import dev.halcyon.engine.sampling.SampledToken;
import dev.halcyon.engine.sampling.SamplingRow;
import java.util.ArrayList;
import java.util.List;

/**
 * Runs planned steps on the backend: packs one flat batch, computes it, samples. Knows no policy.
 */
final class ModelRunner {

  private final Backend backend;
  private final Decoder decoder;
  private final KvStorage kv;
  private final int[] tokenIds;
  private final int[] positions;
  private final int[] slots;
  private final int[] lastRows;

  ModelRunner(Backend backend, Decoder decoder, KvStorage kv, int maxRows, int maxSequences) {
    this.backend = backend;
    this.decoder = decoder;
    this.kv = kv;
    this.tokenIds = new int[maxRows];
    this.positions = new int[maxRows];
    this.slots = new int[maxRows];
    this.lastRows = new int[maxSequences];
  }

  /**
   * A step under way: its chunks in the order of the batch, and the logits of those that sample.
   *
   * @param chunks in the order of the batch
   * @param logits one row for each chunk that samples, in order; null if there is none
   */
  record PendingStep(List<Chunk> chunks, DeviceBuffer logits) {}

  /**
   * The tokens sampled for a chunk.
   *
   * @param tokens one per sample that the chunk's sequence stands for; empty if it ends inside the
   *     prompt
   */
  record ChunkResult(Chunk chunk, List<SampledToken> tokens) {}

  /** Starts a step on the device. */
  PendingStep launch(StepPlan plan) {
    // In the order in which they were planned: a block may be the source of one copy, then the
    // target of
    // another.
    for (Chunk chunk : plan.chunks()) {
      if (chunk.copy() != null) {
        kv.copyBlock(chunk.copy().from(), chunk.copy().to());
      }
    }
    List<Chunk> chunks = plan.packed();
    DeviceBatch batch = backend.upload(pack(chunks));
    DeviceBuffer hidden = decoder.forward(batch, kv);
    int sampling = 0;
    int[] rowStart = batch.batch().rowStart();
    for (int i = 0; i < chunks.size(); i++) {
      if (chunks.get(i).samples()) {
        lastRows[sampling++] = rowStart[i + 1] - 1;
      }
    }
    DeviceBuffer logits = sampling == 0 ? null : decoder.head().project(hidden, lastRows, sampling);
    return new PendingStep(chunks, logits);
  }

  /** Waits for a step and samples its tokens. */
  List<ChunkResult> collect(PendingStep step) {
    List<SamplingRow> entries = new ArrayList<>();
    int row = 0;
    for (Chunk chunk : step.chunks()) {
      if (chunk.samples()) {
        addEntries(entries, chunk.sequence(), row++);
      }
    }
    List<SampledToken> sampled =
        entries.isEmpty()
            ? List.of()
            : backend.sample(step.logits(), decoder.head().vocabSize(), entries);
    backend.synchronize();
    List<ChunkResult> results = new ArrayList<>(step.chunks().size());
    int next = 0;
    for (Chunk chunk : step.chunks()) {
      int count = chunk.samples() ? samples(chunk.sequence()) : 0;
      results.add(new ChunkResult(chunk, sampled.subList(next, next + count)));
      next += count;
    }
    return results;
  }

  private Batch pack(List<Chunk> chunks) {
    int sequences = chunks.size();
    int[] rowStart = new int[sequences + 1];
    int[] contextLength = new int[sequences];
    int[][] blockTables = new int[sequences][];
    int row = 0;
    for (int i = 0; i < sequences; i++) {
      Chunk chunk = chunks.get(i);
      int[] blocks = chunk.sequence().table().blocks();
      rowStart[i] = row;
      contextLength[i] = chunk.start() + chunk.count();
      blockTables[i] = blocks;
      for (int position = chunk.start(); position < contextLength[i]; position++, row++) {
        tokenIds[row] = chunk.sequence().token(position);
        positions[row] = position;
        slots[row] = slot(blocks, position);
      }
    }
    rowStart[sequences] = row;
    return new Batch(
        row, tokenIds, positions, slots, sequences, rowStart, contextLength, blockTables);
  }

  private int slot(int[] blocks, int position) {
    int blockSize = kv.shape().blockSize();
    return blocks[position / blockSize] * blockSize + position % blockSize;
  }

  private static int samples(Sequence sequence) {
    return sequence.request().forked() ? 1 : sequence.request().samples();
  }

  private static void addEntries(List<SamplingRow> entries, Sequence sequence, int row) {
    ActiveRequest request = sequence.request();
    Integer logprobs = request.params().logprobs();
    int count = samples(sequence);
    for (int i = 0; i < count; i++) {
      entries.add(
          new SamplingRow(
              row,
              request.spec().settings(),
              sequence,
              sequence.sampleIndex() + i,
              sequence.generated(),
              request.spec().seed(),
              logprobs == null ? -1 : logprobs,
              request.params().returnGenerationLogits()));
    }
  }
}
