package dev.halcyon.engine.backend;

/**
 * What attention needs to know of a layer. A packed row of queries, keys and values holds
 * queryHeads * headDim queries, then kvHeads * headDim keys, then as many values.
 *
 * @param queryHeads query heads, a multiple of kvHeads; query head h reads KV head h / (queryHeads
 *     / kvHeads)
 * @param kvHeads key and value heads
 * @param headDim elements of a head
 * @param scale the factor on query-key products
 * @param slidingWindow how many positions a row sees, its own included; 0 for all
 * @param softcap 0, or c: scores become c * tanh(score / c)
 */
public record AttentionSpec(
    int queryHeads, int kvHeads, int headDim, float scale, int slidingWindow, float softcap) {

  /**
   * Checks that a layer of a cache holds the keys and values of such a layer.
   *
   * @throws IllegalArgumentException if not
   */
  public void requireFits(KvShape shape, int layer) {
    if (shape.heads() != kvHeads
        || shape.headDim() != headDim
        || queryHeads < 1
        || queryHeads % kvHeads != 0
        || slidingWindow < 0
        || layer < 0
        || layer >= shape.layers()) {
      throw new IllegalArgumentException("Layer " + layer + " of " + this + " over " + shape);
    }
  }

  /** The elements of a packed row of queries, keys and values. */
  public int packedCols() {
    return (queryHeads + 2 * kvHeads) * headDim;
  }
}
