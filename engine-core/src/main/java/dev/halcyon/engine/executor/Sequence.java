package dev.halcyon.engine.executor;

import dev.halcyon.engine.kvcache.BlockTable;
import dev.halcyon.engine.kvcache.TokenSource;
import dev.halcyon.engine.sampling.TokenHistory;
import java.util.Arrays;
import java.util.Comparator;

/**
 * One sample of a request as the scheduler sees it: tokens, how many of them are computed, and the
 * blocks that hold them. Prefill, decode and recomputation after a pause are the same: tokens not
 * computed yet.
 */
final class Sequence implements TokenHistory, TokenSource {

  /** Who goes first: higher priority, then the earlier request, then the lower sample. */
  static final Comparator<Sequence> ORDER =
      Comparator.comparingInt((Sequence s) -> -s.request.priority())
          .thenComparingLong(s -> s.request.id())
          .thenComparingInt(s -> s.sampleIndex);

  private final ActiveRequest request;
  private final int sampleIndex;
  private int[] tokens;
  private int size;
  private int computed;
  private BlockTable table;

  Sequence(ActiveRequest request, int sampleIndex) {
    this.request = request;
    this.sampleIndex = sampleIndex;
    this.tokens = request.prompt().clone();
    this.size = tokens.length;
  }

  ActiveRequest request() {
    return request;
  }

  int sampleIndex() {
    return sampleIndex;
  }

  SequenceOutput output() {
    return request.output(sampleIndex);
  }

  @Override
  public int size() {
    return size;
  }

  @Override
  public int promptLength() {
    return request.prompt().length;
  }

  @Override
  public int token(int index) {
    return tokens[index];
  }

  int generated() {
    return size - promptLength();
  }

  /** Tokens whose keys and values are in the cache. */
  int computed() {
    return computed;
  }

  /** Tokens that are known but not computed. */
  int remaining() {
    return size - computed;
  }

  void advance(int count) {
    computed += count;
  }

  void append(int token) {
    if (size == tokens.length) {
      tokens = Arrays.copyOf(tokens, size + Math.max(16, size / 2));
    }
    tokens[size++] = token;
  }

  BlockTable table() {
    return table;
  }

  /** Takes blocks that hold the first {@code computed} tokens. */
  void attach(BlockTable newTable, int computedTokens) {
    table = newTable;
    computed = computedTokens;
  }

  /** Gives up the blocks: every token is to be computed again. */
  BlockTable detach() {
    BlockTable old = table;
    table = null;
    computed = 0;
    return old;
  }
}
