package dev.halcyon.engine.logits;

import java.util.Arrays;

/**
 * A token and its logit as one long whose ascending order is the order of rank: the highest logit
 * first, ties by the lower id. Every set that a filter keeps is a prefix of that order, so one key,
 * the last kept, tells the whole set. Logits are not NaN.
 */
public final class RankKeys {

  /** What a logit weighs, for {@link #lastToReach}. */
  @FunctionalInterface
  public interface Weight {
    double of(float logit);
  }

  /** A bound that keeps every token. */
  public static final long ALL = Long.MAX_VALUE;

  private static final int SMALLEST_BUFFER = 4096;
  private static final long WORD = 0xFFFFFFFFL;

  private RankKeys() {}

  public static long encode(float logit, int id) {
    // Adding 0 turns -0 into 0, which are equal as logits and must be equal as keys.
    int bits = Float.floatToRawIntBits(logit + 0.0f);
    int ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF);
    return ((long) ~ascending << 32) | (id & WORD);
  }

  /** The last key that a token with a logit of at least {@code lowest} can have. */
  public static long boundAtLeast(double lowest) {
    float rounded = (float) lowest;
    return encode(rounded < lowest ? Math.nextUp(rounded) : rounded, -1);
  }

  public static int id(long key) {
    return (int) key;
  }

  public static float logit(long key) {
    int ascending = ~(int) (key >> 32);
    return Float.intBitsToFloat(ascending ^ ((ascending >> 31) & 0x7FFFFFFF));
  }

  /**
   * The first k tokens among those up to {@code bound}, or all of them when there are fewer; the
   * last in rank stands last, the others in no order. Takes O(vocabulary) expected time and O(k)
   * memory.
   */
  public static long[] first(float[] logits, int k, long bound) {
    int capacity = (int) Math.min(logits.length, Math.max(2L * k, SMALLEST_BUFFER));
    long[] keys = new long[capacity];
    int size = 0;
    long last = bound;
    for (int id = 0; id < logits.length; id++) {
      long key = encode(logits[id], id);
      if (key > last) {
        continue;
      }
      if (size == capacity) {
        select(keys, size, k);
        size = k;
        last = keys[k - 1];
        if (key > last) {
          continue;
        }
      }
      keys[size++] = key;
    }
    int kept = Math.min(k, size);
    select(keys, size, kept);
    return Arrays.copyOf(keys, kept);
  }

  /**
   * Quickselect: moves the k smallest of the first {@code size} keys to the front, the largest of
   * them last. Pivots are pseudo-random, so no arrangement of logits is a bad one.
   */
  static void select(long[] keys, int size, int k) {
    int low = 0;
    int high = size;
    long state = size;
    while (high - low > 1 && k > 0) {
      state = next(state);
      int pivot = partition(keys, low, high, pick(state, low, high));
      if (pivot == k - 1) {
        return;
      }
      if (pivot < k - 1) {
        low = pivot + 1;
      } else {
        high = pivot;
      }
    }
  }

  /**
   * The last key of the shortest prefix in rank whose weights reach {@code target}; the last key of
   * all when they never do. Reorders the keys. Quickselect again, steered by weight in place of
   * number.
   */
  public static long lastToReach(double target, long[] keys, int size, Weight weights) {
    int low = 0;
    int high = size;
    double before = 0;
    long state = size;
    while (low < high) {
      state = next(state);
      int pivot = partition(keys, low, high, pick(state, low, high));
      double inside = 0;
      for (int i = low; i < pivot; i++) {
        inside += weights.of(logit(keys[i]));
      }
      double withPivot = before + inside + weights.of(logit(keys[pivot]));
      if (low < pivot && before + inside >= target) {
        high = pivot;
      } else if (withPivot >= target) {
        return keys[pivot];
      } else {
        before = withPivot;
        low = pivot + 1;
      }
    }
    return keys[Math.min(low, size - 1)];
  }

  private static int partition(long[] keys, int low, int high, int pivot) {
    long value = keys[pivot];
    keys[pivot] = keys[high - 1];
    int store = low;
    for (int i = low; i < high - 1; i++) {
      long key = keys[i];
      if (key < value) {
        keys[i] = keys[store];
        keys[store++] = key;
      }
    }
    keys[high - 1] = keys[store];
    keys[store] = value;
    return store;
  }

  private static long next(long state) {
    return state * 6364136223846793005L + 1442695040888963407L;
  }

  private static int pick(long state, int low, int high) {
    return low + (int) ((state >>> 33) % (high - low));
  }
}
