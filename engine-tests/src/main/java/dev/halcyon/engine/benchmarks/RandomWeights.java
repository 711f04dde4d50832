package dev.halcyon.engine.benchmarks;

/** Random BF16 weights, close to normal with standard deviation 0.02; a seed gives them again. */
final class RandomWeights {

  private static final float STANDARD_DEVIATION = 0.02f;

  private long state;

  RandomWeights(long seed) {
    this.state = seed;
  }

  /** A BF16 value from a sum of four uniform ones, which is close to normal. */
  short next() {
    // SplitMix64 (Steele, Lea and Flood, 2014).
    state += 0x9e3779b97f4a7c15L;
    long z = state;
    z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
    z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
    z ^= z >>> 31;
    int sum =
        (int) ((z & 0xffff) + (z >>> 16 & 0xffff) + (z >>> 32 & 0xffff) + (z >>> 48 & 0xffff));
    // Four uniform values of [0, 65536) have mean 131072 and standard deviation 65536 / sqrt(3).
    float value = (sum - 131072) * (STANDARD_DEVIATION * 1.7320508f / 65536f);
    return (short) (Float.floatToRawIntBits(value) >>> 16);
  }
}
