package dev.halcyon.engine.kvcache;

import java.util.Collection;

/** Walks every list, count and index of a pool and throws at the first thing that is wrong. */
final class IntegrityCheck {

  private final BlockPool pool;
  private final int total;
  private final boolean[] free;
  private final boolean[] cached;

  IntegrityCheck(BlockPool pool) {
    this.pool = pool;
    this.total = pool.total();
    this.free = new boolean[total];
    this.cached = new boolean[total];
  }

  void run(Collection<BlockTable> live) {
    walkFree();
    walkCached();
    int owned = checkReferences(occurrences(live));
    checkIndex();
    require(
        pool.freeCount + pool.cachedCount + owned == total,
        "%d free, %d cached and %d owned blocks are not the %d there are",
        pool.freeCount,
        pool.cachedCount,
        owned,
        total);
  }

  private void walkFree() {
    int count = 0;
    for (int block = pool.freeTop; block != BlockPool.NONE; block = pool.next[block]) {
      requireBlock(block, "the free list");
      require(!free[block], "Block %d is on the free list twice", block);
      free[block] = true;
      count++;
    }
    require(count == pool.freeCount, "%d blocks are free, counted %d", count, pool.freeCount);
  }

  private void walkCached() {
    int count = 0;
    int before = BlockPool.NONE;
    for (int block = pool.oldestCached; block != BlockPool.NONE; block = pool.next[block]) {
      requireBlock(block, "the cached list");
      require(!cached[block], "Block %d is on the cached list twice", block);
      require(
          pool.previous[block] == before,
          "Cached block %d comes after %d and links back to %d",
          block,
          before,
          pool.previous[block]);
      cached[block] = true;
      before = block;
      count++;
    }
    require(
        pool.newestCached == before,
        "The cached list ends with block %d, its end is said to be %d",
        before,
        pool.newestCached);
    require(count == pool.cachedCount, "%d blocks are cached, counted %d", count, pool.cachedCount);
  }

  private int[] occurrences(Collection<BlockTable> live) {
    int[] occurrences = new int[total];
    for (BlockTable table : live) {
      for (int i = 0; i < table.size(); i++) {
        requireBlock(table.block(i), "a live table");
        occurrences[table.block(i)]++;
      }
      require(
          table.hashed() <= table.size(),
          "A table of %d blocks knows the hashes of %d",
          table.size(),
          table.hashed());
    }
    return occurrences;
  }

  /** Returns how many blocks are owned. */
  private int checkReferences(int[] occurrences) {
    int owned = 0;
    for (int block = 0; block < total; block++) {
      int references = pool.references[block];
      require(
          references == occurrences[block],
          "Block %d counts %d references and occurs %d times in live tables",
          block,
          references,
          occurrences[block]);
      int places = (free[block] ? 1 : 0) + (cached[block] ? 1 : 0) + (references > 0 ? 1 : 0);
      require(
          places == 1,
          "Block %d must be one of free (%b), cached (%b) and owned (%d references)",
          block,
          free[block],
          cached[block],
          references);
      owned += references > 0 ? 1 : 0;
    }
    return owned;
  }

  private void checkIndex() {
    boolean[] reached = walkIndex();
    int registered = 0;
    for (int block = 0; block < total; block++) {
      boolean contained = pool.index.contains(block);
      require(!free[block] || !contained, "Free block %d is registered", block);
      require(!cached[block] || contained, "Cached block %d is not registered", block);
      require(contained == reached[block], "Registered block %d is not in the index", block);
      if (contained) {
        registered++;
        int found = pool.index.find(pool.index.hashes[block]);
        require(found == block, "The hash of block %d leads to block %d", block, found);
      }
    }
    require(
        registered == pool.index.size(),
        "%d blocks are registered, counted %d",
        registered,
        pool.index.size());
  }

  /** Follows all chains of the index: they must hold registered blocks only, each once. */
  private boolean[] walkIndex() {
    boolean[] reached = new boolean[total];
    for (int head : pool.index.buckets) {
      for (int block = head; block != PrefixIndex.NONE; block = pool.index.chainNext[block]) {
        requireBlock(block, "the index");
        require(!reached[block], "Block %d is in the index twice", block);
        require(pool.index.contains(block), "Block %d is in the index without a hash", block);
        reached[block] = true;
      }
    }
    return reached;
  }

  private void requireBlock(int block, String where) {
    require(block >= 0 && block < total, "Block %d in %s does not exist", block, where);
  }

  private static void require(boolean holds, String message, Object... arguments) {
    if (!holds) {
      throw new IllegalStateException("KV cache: " + message.formatted(arguments));
    }
  }
}
