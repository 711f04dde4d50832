package dev.halcyon.engine.sampling;

import java.util.Arrays;

/**
 * The distinct tokens of a history and how often each was generated, in an open-addressing table.
 * Made anew for each step that has penalties: that takes time linear in the history, far below that
 * of the logits' own step, and nothing needs to be kept in line with pauses and copies of a
 * request.
 */
public final class TokenCounts {

  private static final int EMPTY = -1;

  private final int[] ids;
  private final int[] generated;
  private final int mask;

  private TokenCounts(int most) {
    int capacity = Math.max(4, Integer.highestOneBit(most) * 4);
    ids = new int[capacity];
    generated = new int[capacity];
    mask = capacity - 1;
    Arrays.fill(ids, EMPTY);
  }

  /**
   * Counts the tokens of a history.
   *
   * @param withPrompt whether tokens of the prompt are entered too, with a count of 0
   */
  public static TokenCounts of(TokenHistory history, boolean withPrompt) {
    int prompt = history.promptLength();
    int size = history.size();
    TokenCounts counts = new TokenCounts(withPrompt ? size : size - prompt);
    if (withPrompt) {
      for (int i = 0; i < prompt; i++) {
        counts.slot(history.token(i));
      }
    }
    for (int i = prompt; i < size; i++) {
      counts.generated[counts.slot(history.token(i))]++;
    }
    return counts;
  }

  /** Hands each distinct token to {@code visitor}, in no order. */
  public void forEach(Visitor visitor) {
    for (int i = 0; i < ids.length; i++) {
      if (ids[i] != EMPTY) {
        visitor.visit(ids[i], generated[i]);
      }
    }
  }

  private int slot(int id) {
    int slot = (id * 0x9E3779B9 >>> 7) & mask;
    while (ids[slot] != id) {
      if (ids[slot] == EMPTY) {
        ids[slot] = id;
        return slot;
      }
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  /** Takes a token and how often it was generated. */
  public interface Visitor {
    void visit(int id, int generated);
  }
}
