package dev.halcyon.engine.kvcache;

import java.util.Arrays;

/** Token ids for tests. */
record Tokens(int... ids) implements TokenSource {

  static Tokens of(int... ids) {
    return new Tokens(ids);
  }

  /** first, first + 1, ... */
  static Tokens from(int first, int count) {
    int[] ids = new int[count];
    Arrays.setAll(ids, i -> first + i);
    return new Tokens(ids);
  }

  @Override
  public int size() {
    return ids.length;
  }

  @Override
  public int token(int index) {
    return ids[index];
  }
}
