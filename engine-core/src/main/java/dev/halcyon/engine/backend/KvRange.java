package dev.halcyon.engine.backend;

import java.util.Objects;

/**
 * Tokens of a sequence in some layers of a cache.
 *
 * @param firstLayer from 0
 * @param layers how many layers, at least 1
 * @param firstToken position of the first token
 * @param count how many tokens, at least 1
 */
public record KvRange(int firstLayer, int layers, int firstToken, int count) {

  /**
   * Requires that a cache has these layers and a sequence's blocks these tokens.
   *
   * @param table the sequence's blocks
   * @throws IndexOutOfBoundsException if there are no such layers
   * @throws IllegalArgumentException if there are no such tokens or blocks
   */
  public void requireWithin(KvShape shape, int[] table) {
    if (layers < 1) {
      throw new IllegalArgumentException("layers must be at least 1, is " + layers);
    }
    Objects.checkFromIndexSize(firstLayer, layers, shape.layers());
    shape.requireTokens(firstLayer, table, firstToken, count, 1, Long.MAX_VALUE);
  }
}
