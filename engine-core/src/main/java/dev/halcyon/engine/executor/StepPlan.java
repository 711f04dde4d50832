package dev.halcyon.engine.executor;

import dev.halcyon.engine.IncompleteContextLogitsException;
import dev.halcyon.engine.kvcache.BlockCopy;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What one step computes: for each sequence in it, how many of its next tokens. */
final class StepPlan {

  /**
   * @param sequence whose tokens
   * @param start position of the first one
   * @param count how many
   * @param copy a block to be copied before the step writes, or null
   */
  record Chunk(Sequence sequence, int start, int count, BlockCopy copy) {

    /** Whether the chunk ends at the newest token, so that the next one is to be sampled. */
    boolean samples() {
      return start + count == sequence.size();
    }

    /** The position of the first row that the request wants and does not have yet. */
    int firstContextRow() {
      return sequence.request().context().rows().scored();
    }

    /**
     * Requires that the chunk leaves no gap in the rows that the request wants.
     *
     * @throws IncompleteContextLogitsException if it does, as cached blocks were reused
     */
    void requireContextRows() {
      ContextOutput context = sequence.request().context();
      if (context != null && !context.complete() && start > firstContextRow()) {
        throw new IncompleteContextLogitsException(firstContextRow(), start);
      }
    }

    /** How many rows of the chunk the request wants and does not have yet. */
    int contextRows() {
      ContextOutput context = sequence.request().context();
      if (context == null || context.complete()) {
        return 0;
      }
      return Math.max(0, Math.min(start + count, sequence.promptLength()) - firstContextRow());
    }

    /** Whether the row to sample from is one of those. */
    boolean samplesFromContextRow() {
      return samples() && contextRows() > 0 && start + count == sequence.promptLength();
    }
  }

  private final Map<Sequence, Chunk> chunks = new LinkedHashMap<>();
  private final List<Sequence> receives = new ArrayList<>();
  private final List<Sequence> paused = new ArrayList<>();
  private int tokens;

  /** Notes a sequence that was let in and is to receive its prompt before it computes anything. */
  void receive(Sequence sequence) {
    receives.add(sequence);
  }

  List<Sequence> receives() {
    return receives;
  }

  /** Notes a sequence that computes nothing, and whose blocks are free for others. */
  void pause(Sequence sequence) {
    remove(sequence);
    paused.add(sequence);
  }

  List<Sequence> paused() {
    return paused;
  }

  void add(Chunk chunk) {
    chunks.put(chunk.sequence(), chunk);
    tokens += chunk.count();
  }

  void remove(Sequence sequence) {
    Chunk chunk = chunks.remove(sequence);
    if (chunk != null) {
      tokens -= chunk.count();
    }
  }

  int tokens() {
    return tokens;
  }

  boolean isEmpty() {
    return chunks.isEmpty();
  }

  Collection<Chunk> chunks() {
    return chunks.values();
  }

  /** The order in the batch: chunks of contexts first, then single rows. */
  List<Chunk> packed() {
    List<Chunk> packed = new ArrayList<>(chunks.size());
    chunks.values().stream().filter(chunk -> chunk.count() > 1).forEach(packed::add);
    chunks.values().stream().filter(chunk -> chunk.count() == 1).forEach(packed::add);
    return packed;
  }
}
