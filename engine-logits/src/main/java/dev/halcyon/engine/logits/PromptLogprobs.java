package dev.halcyon.engine.logits;

/**
 * The logprobs of a prompt in compact form: entry i scores the token at position i + 1 and names
 * the most likely ones there; the last entry scores the first generated token. It lies on the Java
 * heap: 8 bytes a token, and 8 more for each of its top k.
 *
 * <p>Entries may be set by several threads at once, each by one of them.
 */
public final class PromptLogprobs {

  /** The target of the last entry as long as no token was generated. */
  public static final int UNKNOWN = -1;

  private final int[] promptIds;
  private final int topK;
  private final boolean ranked;
  private final float[] logprobs;
  private final int[] ranks;
  private final int[][] topIds;
  private final float[][] topLogprobs;
  private float lastMax;
  private double lastLogOfSum;
  private RowLogprobs lastRow;
  private int firstToken = UNKNOWN;

  /**
   * @param promptIds the prompt; not copied
   * @param topK how many of the most likely tokens an entry names, from 0
   * @param ranked whether the scored tokens' ranks are wanted
   */
  public PromptLogprobs(int[] promptIds, int topK, boolean ranked) {
    this.promptIds = promptIds;
    this.topK = topK;
    this.ranked = ranked;
    this.logprobs = new float[promptIds.length];
    this.ranks = ranked ? new int[promptIds.length] : null;
    this.topIds = topK == 0 ? null : new int[promptIds.length][];
    this.topLogprobs = topK == 0 ? null : new float[promptIds.length][];
  }

  /** The number of entries, the length of the prompt. */
  public int entries() {
    return promptIds.length;
  }

  /** How many of the most likely tokens an entry names. */
  public int topK() {
    return topK;
  }

  /**
   * Checks that rows of logits can be reduced to entries.
   *
   * @throws IllegalArgumentException if there are no such entries, or they name tokens that rows of
   *     {@code cols} elements don't have
   */
  public void requireReducible(int rows, int cols, int firstEntry) {
    if (rows < 0 || cols < 1 || topK > cols) {
      throw new IllegalArgumentException(
          "rows " + rows + ", cols " + cols + " for the top " + topK);
    }
    if (firstEntry < 0 || firstEntry > entries() - rows) {
      throw new IllegalArgumentException(
          rows + " rows from entry " + firstEntry + " of " + entries());
    }
    for (int entry = firstEntry; entry < firstEntry + rows; entry++) {
      if (target(entry) >= cols) {
        throw new IllegalArgumentException(
            "Entry " + entry + " scores a token outside of " + cols + " columns");
      }
    }
  }

  /** Whether the scored tokens' ranks are wanted. */
  public boolean ranked() {
    return ranked;
  }

  /** The token that an entry scores, or {@link #UNKNOWN}. */
  public int target(int entry) {
    return entry + 1 < promptIds.length ? promptIds[entry + 1] : firstToken;
  }

  /** Sets the scored token's part of an entry. */
  public void setTarget(int entry, float logprob, int rank) {
    logprobs[entry] = logprob;
    if (ranked) {
      ranks[entry] = rank;
    }
  }

  /**
   * Sets the most likely tokens of an entry.
   *
   * @param ids in the order of rank; not copied
   */
  public void setTop(int entry, int[] ids, float[] values) {
    if (topK > 0) {
      topIds[entry] = ids;
      topLogprobs[entry] = values;
    }
  }

  /** The logprob of the token that an entry scores. */
  public float logprob(int entry) {
    return logprobs[entry];
  }

  /** Its rank from 1; 0 if ranks were not wanted. */
  public int rank(int entry) {
    return ranked ? ranks[entry] : 0;
  }

  /** The id of a most likely token, by its rank less 1. */
  public int topId(int entry, int index) {
    return topIds[entry][index];
  }

  /** The logprob of a most likely token, by its rank less 1. */
  public float topLogprob(int entry, int index) {
    return topLogprobs[entry][index];
  }

  /**
   * Sets what normalises the last row, which is scored later: a reduction does this in place of
   * {@link #setTarget} where the target is {@link #UNKNOWN}.
   *
   * @param max the row's highest logit
   * @param logOfSum the logarithm of the sum of exp(logit - max)
   */
  public void setLastNormalizer(float max, double logOfSum) {
    lastMax = max;
    lastLogOfSum = logOfSum;
  }

  /**
   * Keeps the last row, reduced before, until the token after it is known.
   *
   * @param logits [vocabSize]; not copied
   */
  void retainLast(float[] logits) {
    lastRow = new RowLogprobs(logits, lastMax, lastLogOfSum);
  }

  /**
   * Scores the first generated token with the last row, which is let go.
   *
   * @throws IllegalStateException if the last row was not reduced, or was scored before
   */
  public void scoreFirstToken(int token) {
    if (lastRow == null) {
      throw new IllegalStateException("there is no last row to score token " + token + " with");
    }
    firstToken = token;
    int entry = promptIds.length - 1;
    setTarget(entry, lastRow.logprob(token), ranked ? lastRow.rank(token) : 0);
    lastRow = null;
  }
}
