package dev.halcyon.engine.kvcache;

/**
 * What opening a table would reuse now.
 *
 * @param tokens the tokens whose keys and values need not be computed, a multiple of the block size
 * @param unreferencedBlocks how many of their blocks no table owns now: opening the table takes
 *     these from the available blocks
 */
public record PrefixMatch(int tokens, int unreferencedBlocks) {}
