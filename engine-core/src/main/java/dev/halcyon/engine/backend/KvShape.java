package dev.halcyon.engine.backend;

import java.util.Objects;

/**
 * The shape of a paged KV cache.
 *
 * @param layers decoder layers
 * @param blocks blocks per layer
 * @param blockSize tokens in a block, a power of two
 * @param heads KV heads
 * @param headDim elements of a head
 */
public record KvShape(int layers, int blocks, int blockSize, int heads, int headDim) {

  /**
   * Checks that a cache can have this shape.
   *
   * @throws IllegalArgumentException if not
   */
  public void requireValid() {
    if (layers < 1
        || blocks < 1
        || heads < 1
        || headDim < 1
        || blockSize < 1
        || Integer.bitCount(blockSize) != 1) {
      throw new IllegalArgumentException(
          "A KV cache needs positive sizes and a power of two as block size: " + this);
    }
  }

  /**
   * The bytes of one block over all layers, keys and values, for elements of {@code elementBytes}.
   */
  public long blockBytes(int elementBytes) {
    return 2L * layers * blockSize * heads * headDim * elementBytes;
  }

  /**
   * Checks the number of a block.
   *
   * @throws IllegalArgumentException if there is no such block
   */
  public void requireBlock(int block) {
    if (block < 0 || block >= blocks) {
      throw new IllegalArgumentException(
          "Block " + block + " is outside a cache of " + blocks + " blocks");
    }
  }

  /**
   * Checks the arguments of {@link KvStorage#exportTokens} and {@link KvStorage#importTokens}.
   *
   * @param elementBytes the size of an element
   * @param room the bytes that the caller has for them
   * @return the bytes that keys and values of the tokens take
   * @throws IndexOutOfBoundsException if there is no such layer
   * @throws IllegalArgumentException if there are no such tokens or blocks, or the buffer is too
   *     small
   */
  public long requireTokens(
      int layer, int[] table, int firstToken, int count, int elementBytes, long room) {
    Objects.checkIndex(layer, layers);
    long held = (long) table.length * blockSize;
    if (firstToken < 0 || count < 1 || firstToken + (long) count > held) {
      throw new IllegalArgumentException(
          count + " tokens from " + firstToken + " are outside of " + held);
    }
    for (int i = firstToken / blockSize; i <= (firstToken + count - 1) / blockSize; i++) {
      requireBlock(table[i]);
    }
    long bytes = 2L * count * heads * headDim * elementBytes;
    if (room < bytes) {
      throw new IllegalArgumentException("the buffer has " + room + " bytes, needs " + bytes);
    }
    return bytes;
  }

  /** Whether another cache holds the same of each token, in blocks of whatever size. */
  public boolean holdsTheSameAs(KvShape other) {
    return layers == other.layers && heads == other.heads && headDim == other.headDim;
  }
}
