package dev.halcyon.engine.cuda;

import dev.halcyon.engine.sampling.LogitAdjustments;
import dev.halcyon.engine.sampling.SamplingRow;
import dev.halcyon.engine.sampling.SamplingSettings;
import dev.halcyon.engine.sampling.TokenCounts;
import java.util.ArrayList;
import java.util.List;

/**
 * The entries that are sampled together, as sampling.cu reads them, and where in the scratch memory
 * everything of theirs lies. What goes to the device is 168 bytes an entry, and 8 for each id that
 * has a bias or a penalty.
 */
final class SamplePlan {

  private static final int ENTRY_BYTES = 104;
  private static final int STATE_BYTES = 24;
  private static final int DRAWN_BYTES = 16;

  /** What entries that are sampled together may take on the device, beyond the first one. */
  private static final long SCRATCH_BYTES = 64L << 20;

  private final Words lists = new Words();
  private final Words words = new Words();
  private final List<Item> items = new ArrayList<>();
  private int vocabSize;
  private int adjusted;
  private long resultBytes;
  private long base;

  /**
   * An entry.
   *
   * @param index its place among all entries
   * @param lists where its adjustments begin, in words of the lists
   * @param adjusted which of the adjusted rows is its own, or -1
   * @param result where its result lies among the results, in bytes
   */
  record Item(
      int index,
      SamplingRow row,
      int lists,
      int biases,
      int bans,
      int penalties,
      int adjusted,
      int result) {}

  void clear(int size) {
    vocabSize = size;
    lists.clear();
    items.clear();
    adjusted = 0;
    resultBytes = 0;
    base = 0;
  }

  List<Item> items() {
    return items;
  }

  boolean isEmpty() {
    return items.isEmpty();
  }

  /** Whether what is planned takes as much memory as it should. */
  boolean full() {
    return bytes() > SCRATCH_BYTES;
  }

  /** The most likely tokens that an entry reports. */
  int top(SamplingRow row) {
    return Math.min(row.logprobs(), vocabSize);
  }

  /**
   * Adds an entry.
   *
   * @return false if the device can't sample it: it has a logits processor, or names ids outside of
   *     the vocabulary, which the host's sampler will say
   */
  boolean add(int index, SamplingRow row) {
    SamplingSettings settings = row.settings();
    int start = lists.size();
    if (settings.processor() != null || !addBiases(settings)) {
      lists.truncate(start);
      return false;
    }
    int biases = settings.logitBias().size();
    int bans = LogitAdjustments.bansEndIds(row) ? addBans(settings) : 0;
    int penalties = LogitAdjustments.penalises(settings) ? addPenalties(row) : 0;
    if (penalties < 0) {
      lists.truncate(start);
      return false;
    }
    boolean changes = biases + bans + penalties > 0;
    items.add(
        new Item(
            index,
            row,
            start,
            biases,
            bans,
            penalties,
            changes ? adjusted++ : -1,
            (int) resultBytes));
    resultBytes += LogprobOps.RESULT_BYTES + (long) Math.max(0, top(row)) * Long.BYTES;
    return true;
  }

  private boolean addBiases(SamplingSettings settings) {
    settings.logitBias().forEach((id, bias) -> lists.i32(id).f32(bias));
    return settings.logitBias().keySet().stream().allMatch(this::known);
  }

  private boolean known(int id) {
    return id >= 0 && id < vocabSize;
  }

  /** Ids outside of the vocabulary are never drawn anyway. */
  private int addBans(SamplingSettings settings) {
    int start = lists.size();
    settings.endIds().stream().filter(this::known).forEach(lists::i32);
    return lists.size() - start;
  }

  /** Returns -1 for a history with ids outside of the vocabulary. */
  private int addPenalties(SamplingRow row) {
    int start = lists.size();
    boolean[] unknown = new boolean[1];
    TokenCounts.of(row.history(), row.settings().repetitionPenalty() != 1)
        .forEach(
            (id, generated) -> {
              unknown[0] |= !known(id);
              lists.i32(id).i32(generated);
            });
    return unknown[0] ? -1 : (lists.size() - start) / 2;
  }

  /** The bytes of scratch memory that the entries take. */
  long bytes() {
    return results() - base + resultBytes;
  }

  int jobs() {
    return items.size() + adjusted;
  }

  private int parts() {
    return LogprobOps.parts(vocabSize);
  }

  long entriesAt() {
    return base;
  }

  long jobsAt() {
    return base + (long) items.size() * ENTRY_BYTES;
  }

  private long listsAt() {
    return jobsAt() + (long) jobs() * LogprobOps.JOB_BYTES;
  }

  long scanAt() {
    return (listsAt() + (long) lists.size() * Integer.BYTES + 15) & -16;
  }

  long statesAt() {
    return scanAt() + jobs() * LogprobOps.scanBytes(vocabSize);
  }

  long drawnAt() {
    return statesAt() + (long) items.size() * STATE_BYTES;
  }

  private long rowsAt() {
    return drawnAt() + (long) items.size() * parts() * DRAWN_BYTES;
  }

  private long rowBytes() {
    return ((long) vocabSize * Float.BYTES + 15) & -16;
  }

  /** Where the results lie, one behind another. */
  long results() {
    return rowsAt() + adjusted * rowBytes();
  }

  int resultBytes() {
    return Math.toIntExact(resultBytes);
  }

  boolean adjusts() {
    return adjusted > 0;
  }

  /** Whether a filter or a list may be too large for the first pass. */
  boolean needsWide() {
    return items.stream()
        .map(Item::row)
        .anyMatch(
            row ->
                LogprobOps.isLong(top(row), vocabSize)
                    || !row.settings().greedy()
                        && (row.settings().topP() < 1
                            || LogprobOps.isLong(topK(row.settings()), vocabSize)));
  }

  /** Whether a draw may be from more than a list. */
  boolean needsDraw() {
    return items.stream()
        .map(item -> item.row().settings())
        .anyMatch(
            settings ->
                !settings.greedy()
                    && (topK(settings) == 0 || LogprobOps.isLong(topK(settings), vocabSize)));
  }

  boolean needsLogprobs() {
    return items.stream().anyMatch(item -> item.row().logprobs() >= 0);
  }

  /** 0 for all. */
  private int topK(SamplingSettings settings) {
    return settings.topK() < vocabSize ? settings.topK() : 0;
  }

  /**
   * The words to upload to the beginning of the scratch memory.
   *
   * @param scratch its address
   * @param logits the address of the rows
   * @param rowBytes the bytes of a row of them
   */
  Words place(long scratch, long logits, long rowBytes) {
    base = scratch;
    words.clear();
    for (int i = 0; i < items.size(); i++) {
      Item item = items.get(i);
      entry(item, i, logits + item.row().row() * rowBytes);
    }
    for (Item item : items) {
      boolean changed = item.adjusted() >= 0;
      int flags = item.row().logprobs() >= 0 ? LogprobOps.SUM : 0;
      LogprobOps.job(
          words, logits + item.row().row() * rowBytes, flags, changed ? 0 : heat(item.row()));
    }
    for (Item item : items) {
      if (item.adjusted() >= 0) {
        LogprobOps.job(words, rowAt(item), LogprobOps.WIDE, heat(item.row()));
      }
    }
    words.all(lists);
    return words;
  }

  private long rowAt(Item item) {
    return rowsAt() + item.adjusted() * rowBytes();
  }

  /** The temperature, where the sum over all of the row at it may be needed. */
  private float heat(SamplingRow row) {
    SamplingSettings settings = row.settings();
    boolean needed =
        !settings.greedy() && settings.topP() < 1 && topK(settings) == 0 && settings.minP() == 0;
    return needed ? settings.temperature() : 0;
  }

  /** As sampling.cu's Entry. */
  private void entry(Item item, int place, long raw) {
    SamplingRow row = item.row();
    SamplingSettings settings = row.settings();
    boolean changed = item.adjusted() >= 0;
    words
        .i64(raw)
        .i64(changed ? rowAt(item) : raw)
        .i64(row.seed())
        .i64(results() + item.result())
        .i64(listsAt() + (long) item.lists() * Integer.BYTES)
        .i32(place)
        .i32(changed ? items.size() + item.adjusted() : place)
        .i32(settings.greedy() ? 1 : 0)
        .f32(settings.temperature())
        .i32(topK(settings))
        .f32(settings.topP())
        .f32(settings.minP())
        .i32(row.position())
        .i32(row.sampleIndex())
        .i32(top(row))
        .i32(item.biases())
        .i32(item.bans())
        .i32(item.penalties())
        .f32(settings.repetitionPenalty())
        .f32(settings.presencePenalty())
        .f32(settings.frequencyPenalty());
  }
}
