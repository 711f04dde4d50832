package dev.halcyon.engine.kvcache;

/**
 * The cache's state and counters at one moment. Blocks are free, cached (unreferenced, kept for
 * reuse) or used (owned by a table); the three add up to the total.
 *
 * @param totalBlocks all blocks
 * @param freeBlocks blocks that hold nothing
 * @param cachedBlocks unreferenced blocks kept for reuse, evicted when needed
 * @param usedBlocks blocks that at least one table owns
 * @param lookups tables opened that were allowed to read the cache
 * @param hits lookups that reused at least one block
 * @param lookupTokens the prompt tokens of all lookups
 * @param reusedTokens the tokens that lookups reused
 * @param evictedBlocks cached blocks taken for something else
 * @param copiedBlocks blocks copied on write
 */
public record KvCacheStats(
    int totalBlocks,
    int freeBlocks,
    int cachedBlocks,
    int usedBlocks,
    long lookups,
    long hits,
    long lookupTokens,
    long reusedTokens,
    long evictedBlocks,
    long copiedBlocks) {}
