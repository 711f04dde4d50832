package dev.halcyon.engine.kvcache;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;

/**
 * Gives the blocks of a paged KV cache to sequences and takes them back. Whole blocks of computed
 * tokens are registered under a hash of all tokens up to their end, and stay cached after the last
 * reference is gone until the room is needed, least recently used first; a later sequence with the
 * same beginning (and the same salt) takes them up again. Forked sequences share blocks, copied
 * when one of them writes.
 *
 * <p>Pure bookkeeping of block ids, 0 to totalBlocks() - 1. For one thread. Every operation is O(1)
 * for each block it touches.
 */
public final class KvCacheManager {

  private final BlockPool pool;
  private final PrefixHasher hasher;
  private final int blockSize;
  private final int blockShift;
  private final boolean prefixReuse;
  private long lookups;
  private long hits;
  private long lookupTokens;
  private long reusedTokens;
  private long copiedBlocks;

  /**
   * @param blocks the number of blocks, at least 1
   * @param blockSize tokens in a block, a power of two
   * @param prefixReuse whether blocks are kept for reuse; without it nothing is ever cached
   */
  public KvCacheManager(int blocks, int blockSize, boolean prefixReuse) {
    if (blocks < 1) {
      throw new IllegalArgumentException("blocks must be at least 1, was " + blocks);
    }
    if (Integer.bitCount(blockSize) != 1 || blockSize < 1) {
      throw new IllegalArgumentException("blockSize must be a power of two, was " + blockSize);
    }
    this.pool = new BlockPool(blocks);
    this.hasher = new PrefixHasher(blockSize);
    this.blockSize = blockSize;
    this.blockShift = Integer.numberOfTrailingZeros(blockSize);
    this.prefixReuse = prefixReuse;
  }

  /** Tokens in a block, a power of two. */
  public int blockSize() {
    return blockSize;
  }

  public int totalBlocks() {
    return pool.total();
  }

  /** Blocks that {@link #grow} can give out: free ones, and cached ones that nobody owns. */
  public int availableBlocks() {
    return pool.available();
  }

  /** Blocks that at least one table owns. */
  public int usedBlocks() {
    return pool.total() - pool.available();
  }

  /** The blocks that {@code tokens} tokens need. */
  public int blocksFor(int tokens) {
    requireTokens(tokens);
    return tokens == 0 ? 0 : ((tokens - 1) >> blockShift) + 1;
  }

  /** The state and the counters now. */
  public KvCacheStats stats() {
    return new KvCacheStats(
        pool.total(),
        pool.freeCount,
        pool.cachedCount,
        usedBlocks(),
        lookups,
        hits,
        lookupTokens,
        reusedTokens,
        pool.evicted(),
        copiedBlocks);
  }

  /**
   * Opens a table for a sequence and attaches the blocks of its beginning that are cached or in use
   * elsewhere: whole blocks only, and so many that at least one of {@code length} tokens is left to
   * compute.
   *
   * @param tokens the sequence's tokens, at least {@code length}
   * @param length how many of them are there to be computed
   * @param cacheSalt sequences share blocks only under equal salts; null for the domain of no salt,
   *     which differs from every salt
   * @param readCache whether to attach anything; false when every token has to be computed
   */
  public BlockTable open(TokenSource tokens, int length, String cacheSalt, boolean readCache) {
    requireLength("length", tokens, length);
    BlockHash root = hasher.root(cacheSalt);
    boolean lookup = readCache && prefixReuse;
    List<BlockHash> chain = lookup ? match(tokens, length, root) : new ArrayList<>();
    int reused = chain.size() << blockShift;
    BlockTable table = new BlockTable(this, root, chain, reused);
    for (BlockHash hash : chain) {
      int block = pool.index.find(hash);
      pool.retain(block);
      table.append(block);
    }
    if (lookup) {
      lookups++;
      lookupTokens += length;
      reusedTokens += reused;
      hits += reused > 0 ? 1 : 0;
    }
    return table;
  }

  /** What {@link #open} with the same arguments and readCache would attach, without doing it. */
  public PrefixMatch peekReuse(TokenSource tokens, int length, String cacheSalt) {
    requireLength("length", tokens, length);
    if (!prefixReuse) {
      return new PrefixMatch(0, 0);
    }
    List<BlockHash> chain = match(tokens, length, hasher.root(cacheSalt));
    int unreferenced = 0;
    for (BlockHash hash : chain) {
      unreferenced += pool.references[pool.index.find(hash)] == 0 ? 1 : 0;
    }
    return new PrefixMatch(chain.size() << blockShift, unreferenced);
  }

  /**
   * Gives the table room for {@code tokens} tokens, evicting cached blocks where no free ones are
   * left.
   *
   * @return false, with nothing changed, when there are too few available blocks
   */
  public boolean grow(BlockTable table, int tokens) {
    requireOpen(table);
    int missing = blocksFor(tokens) - table.size();
    if (missing > pool.available()) {
      return false;
    }
    for (int i = 0; i < missing; i++) {
      table.append(pool.allocate());
    }
    return true;
  }

  /**
   * Makes the block that holds a position the table's own to write. Needed before a position in a
   * block that may be shared is written: the first one after a fork or a reuse; blocks from {@link
   * #grow} are the table's own until it is forked.
   *
   * <p>A block that other tables share is replaced by a new one, to which the caller copies it: all
   * copies of a step in the order in which they were asked for, before any of its writes. A block
   * of this table alone is written in place, and taken out of the index if it was registered there
   * (a fork whose last block was completed by the other side, which then ended): what is written
   * may not be what its hash says.
   *
   * @param position below the table's room
   */
  public PreparedWrite prepareWrite(BlockTable table, int position) {
    requireOpen(table);
    if (position < 0 || position >> blockShift >= table.size()) {
      throw new IllegalArgumentException(
          "position must be in the table's %d blocks of %d tokens, was %d"
              .formatted(table.size(), blockSize, position));
    }
    int index = position >> blockShift;
    int block = table.block(index);
    if (pool.references[block] == 1) {
      if (pool.index.contains(block)) {
        pool.index.remove(block);
      }
      table.forgetHashes(index);
      return PreparedWrite.IN_PLACE;
    }
    if (pool.available() == 0) {
      return PreparedWrite.OUT_OF_BLOCKS;
    }
    int copy = pool.allocate();
    table.replace(index, copy);
    table.forgetHashes(index);
    pool.release(block);
    copiedBlocks++;
    return new PreparedWrite(PreparedWrite.Outcome.COPY, new BlockCopy(block, copy));
  }

  /**
   * A new table that shares the blocks of the first {@code tokens} tokens, the last of them perhaps
   * in part. Needs no new block; both tables {@linkplain #prepareWrite prepare} their next write.
   *
   * @param tokens at most the room of the table
   */
  public BlockTable fork(BlockTable table, int tokens) {
    requireOpen(table);
    int shared = blocksFor(tokens);
    if (shared > table.size()) {
      throw new IllegalArgumentException(
          "tokens must fit the table's %d blocks of %d tokens, was %d"
              .formatted(table.size(), blockSize, tokens));
    }
    int whole = tokens >> blockShift;
    BlockTable fork = table.fork(whole, Math.min(table.reusedTokens(), whole << blockShift));
    for (int i = 0; i < shared; i++) {
      pool.retain(table.block(i));
      fork.append(table.block(i));
    }
    return fork;
  }

  /**
   * Registers the whole blocks among the first {@code computed} tokens, whose keys and values are
   * in the cache now, for others to reuse. Costs O(blocks that became whole since the last time). A
   * block whose tokens another block is registered for already stays unregistered.
   *
   * @param tokens the sequence's tokens, at least {@code computed}
   */
  public void commit(BlockTable table, TokenSource tokens, int computed) {
    requireOpen(table);
    requireLength("computed", tokens, computed);
    int whole = computed >> blockShift;
    if (whole > table.size()) {
      throw new IllegalArgumentException(
          "computed must fit the table's %d blocks of %d tokens, was %d"
              .formatted(table.size(), blockSize, computed));
    }
    if (!prefixReuse) {
      return;
    }
    for (int i = table.hashed(); i < whole; i++) {
      BlockHash hash = hasher.next(table.lastHash(), tokens, i);
      table.appendHash(hash);
      register(table.block(i), hash);
    }
  }

  /**
   * Gives the table's blocks back: those that nobody else owns are cached if registered, and
   * otherwise free. Does nothing for a table released before.
   */
  public void release(BlockTable table) {
    requireOwn(table);
    // From the end, so that a chain loses its tail before its head: a block without those before it
    // is
    // never found.
    for (int i = table.size() - 1; i >= 0; i--) {
      pool.release(table.block(i));
    }
    table.markReleased();
  }

  /** Forgets all cached blocks that nobody owns. */
  public void clear() {
    pool.dropCached();
  }

  /**
   * Checks that every block is exactly one of free, cached or owned, that reference counts equal
   * the occurrences in the live tables, that the index is one to one, and that the sums add up.
   *
   * @param live all tables of this manager that were not released
   * @throws IllegalStateException that tells what is wrong
   */
  public void checkIntegrity(Collection<BlockTable> live) {
    live.forEach(this::requireOpen);
    new IntegrityCheck(pool).run(live);
  }

  /** For tests, which corrupt it. */
  BlockPool pool() {
    return pool;
  }

  /** The hashes of the leading whole blocks that are registered, short of the last token. */
  private List<BlockHash> match(TokenSource tokens, int length, BlockHash root) {
    List<BlockHash> chain = new ArrayList<>();
    int limit = length == 0 ? 0 : (length - 1) >> blockShift;
    BlockHash last = root;
    for (int i = 0; i < limit; i++) {
      last = hasher.next(last, tokens, i);
      if (pool.index.find(last) == PrefixIndex.NONE) {
        break;
      }
      chain.add(last);
    }
    return chain;
  }

  private void register(int block, BlockHash hash) {
    if (pool.index.contains(block)) {
      if (!pool.index.hashes[block].equals(hash)) {
        throw new IllegalStateException(
            "KV block %d was written again without prepareWrite".formatted(block));
      }
    } else if (pool.index.find(hash) == PrefixIndex.NONE) {
      pool.index.add(hash, block);
    }
  }

  private void requireOpen(BlockTable table) {
    requireOwn(table);
    if (table.released()) {
      throw new IllegalStateException("The block table was released before");
    }
  }

  private void requireOwn(BlockTable table) {
    if (table.owner != this) {
      throw new IllegalArgumentException("table must be one of this manager's");
    }
  }

  private static void requireLength(String name, TokenSource tokens, int length) {
    if (length < 0 || length > tokens.size()) {
      throw new IllegalArgumentException(
          "%s must be 0 to the %d tokens there are, was %d".formatted(name, tokens.size(), length));
    }
  }

  private static void requireTokens(int tokens) {
    if (tokens < 0) {
      throw new IllegalArgumentException("tokens must not be negative, was " + tokens);
    }
  }
}
