package dev.halcyon.engine.backend;

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
}
