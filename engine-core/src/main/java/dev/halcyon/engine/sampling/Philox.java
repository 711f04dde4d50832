package dev.halcyon.engine.sampling;

/**
 * The counter-based random number generator Philox4x32-10 of Salmon, Moraes, Dror and Shaw,
 * "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): a bijection of 128-bit counters, keyed
 * by 64 bits. There is no state to carry, so whoever knows the counter draws the same numbers, in
 * any order and on any device.
 *
 * <p>Words are unsigned 32-bit numbers held in ints.
 */
public final class Philox {

  private static final long MULTIPLIER_0 = 0xD2511F53L;
  private static final long MULTIPLIER_1 = 0xCD9E8D57L;
  private static final int WEYL_0 = 0x9E3779B9;
  private static final int WEYL_1 = 0xBB67AE85;
  private static final int ROUNDS = 10;
  private static final long WORD = 0xFFFFFFFFL;

  private Philox() {}

  /**
   * Writes the four words that belong to a counter.
   *
   * @param key the key's word 0 in the low 32 bits, word 1 in the high ones
   * @param out [4] takes words 0 to 3
   */
  public static void block(
      int counter0, int counter1, int counter2, int counter3, long key, int[] out) {
    int c0 = counter0;
    int c1 = counter1;
    int c2 = counter2;
    int c3 = counter3;
    int k0 = (int) key;
    int k1 = (int) (key >>> 32);
    for (int round = 0; round < ROUNDS; round++) {
      long product0 = MULTIPLIER_0 * (c0 & WORD);
      long product1 = MULTIPLIER_1 * (c2 & WORD);
      c0 = (int) (product1 >>> 32) ^ c1 ^ k0;
      c1 = (int) product1;
      c2 = (int) (product0 >>> 32) ^ c3 ^ k1;
      c3 = (int) product0;
      k0 += WEYL_0;
      k1 += WEYL_1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
  }
}
