package dev.halcyon.engine.kvcache;

import java.util.Arrays;

/**
 * Which block holds the keys and values of which prefix, one to one. A hash table whose entries are
 * the blocks themselves: chains of equal buckets run through an array by block, so nothing is
 * allocated or boxed.
 */
final class PrefixIndex {

  static final int NONE = -1;

  private final int mask;
  final int[] buckets;
  final int[] chainNext;
  final BlockHash[] hashes;
  private int size;

  PrefixIndex(int blocks) {
    int capacity = Integer.highestOneBit(Math.min(blocks, 1 << 29)) << 1;
    this.mask = capacity - 1;
    this.buckets = new int[capacity];
    this.chainNext = new int[blocks];
    this.hashes = new BlockHash[blocks];
    Arrays.fill(buckets, NONE);
  }

  /** The number of registered blocks. */
  int size() {
    return size;
  }

  /** The block registered for a hash, or {@link #NONE}. */
  int find(BlockHash hash) {
    int block = buckets[hash.bucket(mask)];
    while (block != NONE && !hashes[block].equals(hash)) {
      block = chainNext[block];
    }
    return block;
  }

  boolean contains(int block) {
    return hashes[block] != null;
  }

  /** Registers a block that is not registered, for a hash that isn't either. */
  void add(BlockHash hash, int block) {
    int bucket = hash.bucket(mask);
    hashes[block] = hash;
    chainNext[block] = buckets[bucket];
    buckets[bucket] = block;
    size++;
  }

  /** Forgets a registered block. */
  void remove(int block) {
    int bucket = hashes[block].bucket(mask);
    if (buckets[bucket] == block) {
      buckets[bucket] = chainNext[block];
    } else {
      int before = buckets[bucket];
      while (chainNext[before] != block) {
        before = chainNext[before];
      }
      chainNext[before] = chainNext[block];
    }
    hashes[block] = null;
    size--;
  }
}
