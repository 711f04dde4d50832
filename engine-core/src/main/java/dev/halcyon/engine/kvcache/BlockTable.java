package dev.halcyon.engine.kvcache;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The blocks of one sequence, in order of position. Made and changed by its {@link KvCacheManager}
 * only, and of no use after {@link KvCacheManager#release}.
 */
public final class BlockTable {

  private static final int INITIAL_CAPACITY = 8;

  final KvCacheManager owner;
  private final BlockHash root;
  private final List<BlockHash> chain;
  private final int reusedTokens;
  private int[] blocks;
  private int size;
  private boolean released;

  /**
   * @param root the hash before the first block
   * @param chain the hashes of the leading blocks whose content is known; taken over, not copied
   */
  BlockTable(KvCacheManager owner, BlockHash root, List<BlockHash> chain, int reusedTokens) {
    this.owner = owner;
    this.root = root;
    this.chain = chain;
    this.reusedTokens = reusedTokens;
    this.blocks = new int[Math.max(INITIAL_CAPACITY, chain.size())];
  }

  /**
   * The block ids, in the first {@link #size()} entries of a live array: not to be changed, and
   * replaced by a longer one when the table outgrows it.
   */
  public int[] blocks() {
    return blocks;
  }

  /** The number of blocks. */
  public int size() {
    return size;
  }

  /**
   * How many leading tokens were in the cache when the table was opened, a multiple of the block
   * size.
   */
  public int reusedTokens() {
    return reusedTokens;
  }

  /** Whether the blocks were given back. */
  public boolean released() {
    return released;
  }

  int block(int index) {
    return blocks[index];
  }

  void append(int block) {
    if (size == blocks.length) {
      blocks = Arrays.copyOf(blocks, 2 * size);
    }
    blocks[size++] = block;
  }

  void replace(int index, int block) {
    blocks[index] = block;
  }

  /** How many leading blocks have a known content, and so a hash. */
  int hashed() {
    return chain.size();
  }

  /** The hash that the next block's is chained to. */
  BlockHash lastHash() {
    return chain.isEmpty() ? root : chain.get(chain.size() - 1);
  }

  void appendHash(BlockHash hash) {
    chain.add(hash);
  }

  /** Forgets the content of the blocks from {@code index} on. */
  void forgetHashes(int index) {
    if (index < chain.size()) {
      chain.subList(index, chain.size()).clear();
    }
  }

  /** A table of no blocks yet that knows this one's content up to {@code hashes} blocks. */
  BlockTable fork(int hashes, int reusedTokens) {
    List<BlockHash> known = new ArrayList<>(chain.subList(0, Math.min(hashes, chain.size())));
    return new BlockTable(owner, root, known, reusedTokens);
  }

  void markReleased() {
    released = true;
    size = 0;
    chain.clear();
  }
}
