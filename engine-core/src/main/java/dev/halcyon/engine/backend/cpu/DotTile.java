package dev.halcyon.engine.backend.cpu;

/**
 * The vectorised part of products of four weight rows, at byte offsets o0 to o3 of a view, with one
 * or four rows of packed activations. Each product is summed in one vector accumulator, over the
 * columns in order, and that vector in a fixed tree: what one() and four() give for a pair of rows
 * is the same to the bit.
 *
 * <p>How the implementations are written matters. HotSpot turns these loops into vector
 * instructions only if it inlines everything in them, and it stops at 8000 bytes of inlined code; a
 * loop that is itself inlined into a larger caller shares that caller's 8000, and then runs on
 * boxed vectors, tens of times slower, or not, by the luck of what was compiled first. So each loop
 * stands in a method of more than 325 bytes (FreqInlineSize), which no caller inlines, and is
 * written out without helpers; a test holds the size.
 */
interface DotTile {

  /** How many elements of a row go through vectors; the rest is the caller's. */
  int vectorised(int cols);

  /**
   * sums[r] = product of weight row r with the activations at x[x0].
   *
   * @return whether a weight row may hold infinities or NaN that the sums leave out
   */
  boolean one(
      Object view, long o0, long o1, long o2, long o3, int cols, float[] x, int x0, float[] sums);

  /**
   * sums[4 * b + r] = product of weight row r with the activations at x[x0], x[x1], x[x2], x[x3].
   *
   * @return as {@link #one}
   */
  boolean four(
      Object view,
      long o0,
      long o1,
      long o2,
      long o3,
      int cols,
      float[] x,
      int x0,
      int x1,
      int x2,
      int x3,
      float[] sums);
}
