package dev.halcyon.engine.executor;

import dev.halcyon.engine.RequestOutOfMemoryException;
import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.backend.DeviceBatch;
import dev.halcyon.engine.backend.KvStorage;
import dev.halcyon.engine.backend.StepLimits;
import dev.halcyon.engine.executor.StepPlan.Chunk;
import dev.halcyon.engine.logits.BatchDescription;
import dev.halcyon.engine.logits.ContextLogits;
import dev.halcyon.engine.logits.ContextLogitsPlan;
import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import dev.halcyon.engine.model.Decoder;
import dev.halcyon.engine.model.OutputHead;
import dev.halcyon.engine.sampling.SampledToken;
import dev.halcyon.engine.sampling.SamplingRow;
import dev.halcyon.engine.sampling.SamplingSettings;
import dev.halcyon.engine.sampling.TokenHistory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.IntConsumer;

/**
 * Runs planned steps on the backend: packs one flat batch, computes it, samples. Knows no policy.
 */
final class ModelRunner {

  private static final int NONE = -1;

  /** What a step is tried out with: the most likely token, and a draw with all that it can need. */
  private static final SamplingSettings[] TRIED =
      new SamplingSettings[] {
        new SamplingSettings(0, 0, 1, 0, 1, 0, 0, Map.of(), 0, Set.of(), null),
        new SamplingSettings(1, 50, 0.9f, 0.01f, 1.1f, 0, 0, Map.of(), 0, Set.of(), null)
      };

  private final Backend backend;
  private final Decoder decoder;
  private final KvStorage kv;
  private final int[] tokenIds;
  private final int[] positions;
  private final int[] slots;
  private final int[] samplingRows;
  private final ContextLogitsPlan plan;
  private final Function<List<Chunk>, BatchDescription> describe;
  private final Consumer<DeviceBatch> body;
  private IntConsumer onLayer = layer -> {};

  /**
   * @param plan projects context rows that are wanted
   * @param describe says of a step what bears on how they are projected
   */
  ModelRunner(
      Backend backend,
      Decoder decoder,
      KvStorage kv,
      ContextLogitsPlan plan,
      Function<List<Chunk>, BatchDescription> describe,
      int maxRows,
      int maxSequences) {
    this.backend = backend;
    this.decoder = decoder;
    this.kv = kv;
    this.plan = plan;
    this.describe = describe;
    this.tokenIds = new int[maxRows];
    this.positions = new int[maxRows];
    this.slots = new int[maxRows];
    this.samplingRows = new int[maxSequences];
    this.body = batch -> decoder.forward(batch, kv, layer -> onLayer.accept(layer));
  }

  /** A chunk on its way: where it stands in the batch, and where the row to sample from stands. */
  private static final class Work {
    private final Chunk chunk;
    private final int firstRow;
    private int logitsRow = NONE;
    private RuntimeException error;

    Work(Chunk chunk, int firstRow) {
      this.chunk = chunk;
      this.firstRow = firstRow;
    }

    int lastRow() {
      return firstRow + chunk.count() - 1;
    }

    boolean samples() {
      return logitsRow != NONE && error == null;
    }
  }

  /** A step under way. */
  static final class PendingStep {
    private final List<Work> work;

    private PendingStep(List<Work> work) {
      this.work = work;
    }
  }

  /**
   * What came of a chunk.
   *
   * @param tokens one per sample that the chunk's sequence stands for; empty if it ends inside the
   *     prompt
   * @param error null, or why the chunk's request alone fails; nothing else counts then
   */
  record ChunkResult(Chunk chunk, List<SampledToken> tokens, RuntimeException error) {}

  /**
   * Lets the backend run what it wants to have run before the first step.
   *
   * @param sequenceLength the most tokens of a sequence
   * @throws OutOfDeviceMemoryException if the largest step has no room
   */
  void warmUp(int sequenceLength) {
    backend.warmUp(
        new StepLimits(tokenIds.length, samplingRows.length, sequenceLength), this::tryOut);
    backend.synchronize();
  }

  /** A step of which nothing is kept. */
  private void tryOut(Batch batch) {
    DeviceBuffer hidden = forward(backend.upload(batch));
    int count = Math.min(batch.sequences(), samplingRows.length);
    List<SamplingRow> entries = new ArrayList<>(count);
    for (int i = 0; i < count; i++) {
      samplingRows[i] = batch.rowStart()[i + 1] - 1;
      int logprobs = i % TRIED.length == 0 ? -1 : 0;
      entries.add(
          new SamplingRow(i, TRIED[i % TRIED.length], new OneToken(), 0, 0, 0, logprobs, false));
    }
    plan.tryOut(hidden, batch.rows());
    OutputHead head = decoder.head();
    head.projectSamplingRows(hidden, samplingRows, count);
    backend.sample(head.samplingRows(), head.vocabSize(), entries);
  }

  /** The history of a sequence that is not there. */
  private record OneToken() implements TokenHistory {

    @Override
    public int size() {
      return 1;
    }

    @Override
    public int promptLength() {
      return 1;
    }

    @Override
    public int token(int index) {
      return 0;
    }
  }

  private DeviceBuffer forward(DeviceBatch batch) {
    backend.runStep(batch, body);
    return decoder.hiddenRows();
  }

  /**
   * Starts a step on the device.
   *
   * @param onLayer told of each layer whose keys and values are queued to be written; not of every
   *     one, or of none, where the backend repeats a recorded step
   */
  PendingStep launch(StepPlan step, IntConsumer onLayer) {
    this.onLayer = onLayer;
    // In the order in which they were planned: a block may be the source of one copy, then the
    // target of another.
    for (Chunk chunk : step.chunks()) {
      if (chunk.copy() != null) {
        kv.copyBlock(chunk.copy().from(), chunk.copy().to());
      }
    }
    List<Chunk> chunks = step.packed();
    DeviceBatch batch = backend.upload(pack(chunks));
    DeviceBuffer hidden = forward(batch);
    List<Work> work = new ArrayList<>(chunks.size());
    for (int i = 0; i < chunks.size(); i++) {
      work.add(new Work(chunks.get(i), batch.batch().rowStart()[i]));
    }
    projectContexts(work, hidden, projectPlainRows(work, hidden), describe.apply(chunks));
    return new PendingStep(work);
  }

  /**
   * Projects the rows to sample from that belong to no wanted context row, together: those of
   * generation and of contexts that want none. Returns how many there are.
   */
  private int projectPlainRows(List<Work> work, DeviceBuffer hidden) {
    int count = 0;
    for (Work each : work) {
      if (each.chunk.samples() && !each.chunk.samplesFromContextRow()) {
        each.logitsRow = count;
        samplingRows[count++] = each.lastRow();
      }
    }
    if (count > 0) {
      decoder.head().projectSamplingRows(hidden, samplingRows, count);
    }
    return count;
  }

  /**
   * Projects wanted context rows; a row that is sampled from as well is copied behind the others.
   */
  private void projectContexts(
      List<Work> work, DeviceBuffer hidden, int plainRows, BatchDescription description) {
    int row = plainRows;
    for (Work each : work) {
      Chunk chunk = each.chunk;
      if (chunk.contextRows() == 0) {
        continue;
      }
      DeviceBuffer samplingRow = null;
      if (chunk.samplesFromContextRow()) {
        each.logitsRow = row++;
        samplingRow = decoder.head().samplingRow(each.logitsRow);
      }
      ContextLogits target = chunk.sequence().request().context().rows();
      try {
        plan.project(
            target,
            description,
            hidden,
            each.firstRow + chunk.firstContextRow() - chunk.start(),
            chunk.firstContextRow(),
            chunk.contextRows(),
            samplingRow);
      } catch (OutOfDeviceMemoryException | OutOfMemoryError e) {
        each.error =
            new RequestOutOfMemoryException(
                "Memory for the projection of the request's context rows ran out: "
                    + e.getMessage(),
                e);
      }
    }
  }

  /** Waits for a step and samples its tokens. */
  List<ChunkResult> collect(PendingStep step) {
    List<SamplingRow> entries = new ArrayList<>();
    for (Work each : step.work) {
      if (each.samples()) {
        addEntries(entries, each.chunk.sequence(), each.logitsRow);
      }
    }
    OutputHead head = decoder.head();
    List<SampledToken> sampled =
        entries.isEmpty()
            ? List.of()
            : backend.sample(head.samplingRows(), head.vocabSize(), entries);
    backend.synchronize();
    List<ChunkResult> results = new ArrayList<>(step.work.size());
    int next = 0;
    for (Work each : step.work) {
      int count = each.samples() ? samples(each.chunk.sequence()) : 0;
      results.add(new ChunkResult(each.chunk, sampled.subList(next, next + count), each.error));
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
