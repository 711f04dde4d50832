package dev.halcyon.engine.backend;

import java.nio.ByteBuffer;

/**
 * The device memory of a paged KV cache; its layout is the backend's own.
 *
 * <p>Operations of the backend, {@link #copyBlock} and imports take place in the order in which the
 * owner's thread calls them, and may still be under way when they return. Exports, and copies to
 * other caches, are outside that order and read what is there: tokens for which {@link
 * #awaitWrites} returned, or {@link #whenWritten} gave word, after they were written.
 */
public interface KvStorage extends AutoCloseable {

  KvShape shape();

  /** Copies a block's keys and values, in every layer. */
  void copyBlock(int from, int to);

  /** Whether {@link #exportTokens} and {@link #importTokens} are there. */
  default boolean transferable() {
    return false;
  }

  /**
   * Copies keys and values of a sequence's tokens in one layer to the host, complete on return. The
   * tokens are there, and nobody writes them, or closes the cache, meanwhile.
   *
   * @param blocks the sequence's blocks, in the order of positions
   * @param firstToken position of the first token
   * @param count how many, within the blocks
   * @param to written from its position on, as [keys or values, token, head, headDim] of {@link
   *     Backend#activationType} elements, little-endian; its position moves behind them
   * @throws IllegalStateException if the cache is closed
   */
  default void exportTokens(int layer, int[] blocks, int firstToken, int count, ByteBuffer to) {
    throw new UnsupportedOperationException("this KV cache can't be exported");
  }

  /**
   * Copies keys and values of a sequence's tokens in one layer from the host; operations that are
   * called from now on find them. The counterpart of {@link #exportTokens}, with the same
   * parameters; {@code from} is the caller's again on return.
   */
  default void importTokens(int layer, int[] blocks, int firstToken, int count, ByteBuffer from) {
    throw new UnsupportedOperationException("this KV cache can't be imported");
  }

  /**
   * Whether any thread may export, several at once too, while the owner's thread does what it likes
   * with other tokens.
   */
  default boolean exportsOnAnyThread() {
    return false;
  }

  /**
   * Names the order in which {@link #exportStored} writes, down to the size of blocks. Caches whose
   * order has the same name understand each other.
   *
   * @return null if there is none that is any faster than that of {@link #exportTokens}
   */
  default String storedOrder() {
    return null;
  }

  /**
   * As {@link #exportTokens}, with as many bytes, in this cache's own order: plain copies where
   * whole blocks are asked for.
   */
  default void exportStored(int layer, int[] blocks, int firstToken, int count, ByteBuffer to) {
    throw new UnsupportedOperationException("this KV cache has no order of its own");
  }

  /** As {@link #importTokens}, from the order of {@link #storedOrder}. */
  default void importStored(int layer, int[] blocks, int firstToken, int count, ByteBuffer from) {
    throw new UnsupportedOperationException("this KV cache has no order of its own");
  }

  /** Whether {@link #copyTokens} takes tokens straight from another cache. */
  default boolean copiesFrom(KvStorage other) {
    return false;
  }

  /**
   * How many bytes {@link #copyTokens} is best given at once: little time for whoever waits
   * meanwhile, but much more than a call takes by itself.
   */
  default long copyBytes() {
    return 1 << 22;
  }

  /**
   * Copies keys and values of a sequence's tokens straight from another cache that {@link
   * #copiesFrom} allows, complete on return; the block sizes may differ. Nobody may write those
   * tokens, or close the other cache, meanwhile.
   *
   * @param from another cache, whose {@link #awaitWrites} returned after they were written there
   * @param fromBlocks the sequence's blocks in that cache, in the order of positions
   * @param blocks its blocks in this one
   * @param range which tokens, in which layers
   */
  default void copyTokens(KvStorage from, int[] fromBlocks, int[] blocks, KvRange range) {
    throw new UnsupportedOperationException("this KV cache copies from no other");
  }

  /** Waits, on the owner's thread, until all that was written here is there to be read. */
  default void awaitWrites() {}

  /**
   * As {@link #awaitWrites}, without waiting.
   *
   * @param then called once all that was written here up to now is there: by this call, or later by
   *     a thread of the backend's own, one call after the other in the order in which they were
   *     asked for; must not block. Never, if this call belongs to a step that is being recorded,
   *     which writes nothing, or if computing fails
   */
  default void whenWritten(Runnable then) {
    then.run();
  }

  @Override
  void close();
}
