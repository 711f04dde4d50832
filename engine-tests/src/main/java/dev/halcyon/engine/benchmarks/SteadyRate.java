package dev.halcyon.engine.benchmarks;

import java.util.List;

/**
 * The rate of a group of requests while all of them decode: from the moment when the last of them
 * has its first token until the first of them has its last token. What comes before is prefill,
 * what comes after is a smaller batch.
 */
final class SteadyRate {

  private SteadyRate() {}

  /**
   * Tokens a second over all requests.
   *
   * @param arrivals for each request the times, in nanoseconds and ascending, at which its tokens
   *     came
   * @throws IllegalArgumentException if the requests were never all decoding at once
   */
  static double of(List<long[]> arrivals) {
    long start = arrivals.stream().mapToLong(times -> times[0]).max().orElseThrow();
    long end = arrivals.stream().mapToLong(times -> times[times.length - 1]).min().orElseThrow();
    if (end <= start) {
      throw new IllegalArgumentException(
          "the requests were never decoding together; generate more tokens");
    }
    long tokens = 0;
    for (long[] times : arrivals) {
      for (long time : times) {
        if (time > start && time <= end) {
          tokens++;
        }
      }
    }
    return tokens * 1e9 / (end - start);
  }
}
