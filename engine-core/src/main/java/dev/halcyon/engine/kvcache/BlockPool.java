package dev.halcyon.engine.kvcache;

import java.util.Arrays;

/**
 * The blocks and their reference counts. A block is free, cached (no references, registered in the
 * index) or owned. Free blocks are a stack and cached ones a list from least to most recently used,
 * both linked through arrays by block: every operation is O(1).
 */
final class BlockPool {

  static final int NONE = -1;

  final PrefixIndex index;
  final int[] references;

  /** Links of the free stack (next only) or the cached list; a block is on at most one of them. */
  final int[] next;

  final int[] previous;
  int freeTop;
  int freeCount;
  int oldestCached = NONE;
  int newestCached = NONE;
  int cachedCount;
  private long evicted;

  BlockPool(int blocks) {
    this.index = new PrefixIndex(blocks);
    this.references = new int[blocks];
    this.next = new int[blocks];
    this.previous = new int[blocks];
    Arrays.setAll(next, block -> block + 1 < blocks ? block + 1 : NONE);
    Arrays.fill(previous, NONE);
    this.freeTop = 0;
    this.freeCount = blocks;
  }

  int total() {
    return references.length;
  }

  int available() {
    return freeCount + cachedCount;
  }

  long evicted() {
    return evicted;
  }

  /** Takes a free block, or the least recently used cached one, with one reference. */
  int allocate() {
    if (freeTop == NONE) {
      evictOldest();
    }
    int block = freeTop;
    freeTop = next[block];
    next[block] = NONE;
    freeCount--;
    references[block] = 1;
    return block;
  }

  /** Adds a reference to a block that is owned or cached. */
  void retain(int block) {
    if (references[block]++ == 0) {
      unlinkCached(block);
    }
  }

  /** Takes a reference away; without any, a registered block is cached as most recently used. */
  void release(int block) {
    if (--references[block] > 0) {
      return;
    }
    if (index.contains(block)) {
      appendCached(block);
    } else {
      pushFree(block);
    }
  }

  /** Frees every cached block. */
  void dropCached() {
    while (oldestCached != NONE) {
      free(oldestCached);
    }
  }

  private void evictOldest() {
    if (oldestCached == NONE) {
      throw new IllegalStateException("No KV block is available; check before allocating");
    }
    free(oldestCached);
    evicted++;
  }

  private void free(int cached) {
    unlinkCached(cached);
    index.remove(cached);
    pushFree(cached);
  }

  private void pushFree(int block) {
    next[block] = freeTop;
    freeTop = block;
    freeCount++;
  }

  private void appendCached(int block) {
    previous[block] = newestCached;
    next[block] = NONE;
    if (newestCached == NONE) {
      oldestCached = block;
    } else {
      next[newestCached] = block;
    }
    newestCached = block;
    cachedCount++;
  }

  private void unlinkCached(int block) {
    int before = previous[block];
    int after = next[block];
    if (before == NONE) {
      oldestCached = after;
    } else {
      next[before] = after;
    }
    if (after == NONE) {
      newestCached = before;
    } else {
      previous[after] = before;
    }
    previous[block] = NONE;
    next[block] = NONE;
    cachedCount--;
  }
}
