package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.KvShape;

/**
 * Tokens of a sequence in one layer of a cache.
 *
 * @param keys the address of the layer's keys
 * @param values the address of the layer's values
 * @param blocks the sequence's blocks
 * @param first position of the first token
 * @param count how many there are
 * @param elementBytes the size of an element
 * @param bytes all of the tokens' keys and values
 */
record KvTokens(
    KvShape shape,
    long keys,
    long values,
    int[] blocks,
    int first,
    int count,
    int elementBytes,
    long bytes) {

  int headBytes() {
    return shape.headDim() * elementBytes;
  }

  /** The index in {@link #blocks} of the first token's block. */
  int firstBlock() {
    return first / shape.blockSize();
  }

  /** How many blocks the tokens lie in. */
  int blockCount() {
    return (first + count - 1) / shape.blockSize() - firstBlock() + 1;
  }
}
