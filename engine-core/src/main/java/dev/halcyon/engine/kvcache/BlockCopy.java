package dev.halcyon.engine.kvcache;

/**
 * A copy of a whole block's keys and values that has to be done before the step's writes.
 *
 * @param from the block to read
 * @param to the block to overwrite
 */
public record BlockCopy(int from, int to) {}
