package dev.halcyon.engine.benchmarks;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.function.ToLongFunction;

/**
 * How fast this machine streams memory into registers. Every thread sums its own array of longs,
 * all at once, over and over; the best pass counts. The arrays together are far larger than any
 * cache. The sum runs once through a plain loop unrolled to eight accumulators and once through the
 * vector module where there is one, and the faster of the two is the result: a limit must not be
 * too low.
 */
final class MemoryBandwidth {

  private static final int UNROLL = 8;

  private MemoryBandwidth() {}

  /** Bytes a second. */
  static double measure(ExecutorService pool, int threads, long totalBytes, int passes)
      throws Exception {
    int length = Math.toIntExact(totalBytes / threads / Long.BYTES / UNROLL * UNROLL);
    List<ToLongFunction<long[]>> methods = new ArrayList<>();
    methods.add(MemoryBandwidth::sumUnrolled);
    if (ModuleLayer.boot().findModule("jdk.incubator.vector").isPresent()) {
      methods.add(VectorSum::of);
    }
    List<long[]> arrays = allocate(pool, threads, length);
    double best = 0;
    for (ToLongFunction<long[]> method : methods) {
      best = Math.max(best, bestPass(pool, arrays, method, passes));
    }
    return best;
  }

  /** Each thread touches its own array first, so that memory lies near to it. */
  private static List<long[]> allocate(ExecutorService pool, int threads, int length)
      throws Exception {
    Callable<long[]> allocation =
        () -> {
          long[] array = new long[length];
          Arrays.fill(array, 1);
          return array;
        };
    List<long[]> arrays = new ArrayList<>();
    for (var future : pool.invokeAll(Collections.nCopies(threads, allocation))) {
      arrays.add(future.get());
    }
    return arrays;
  }

  private static double bestPass(
      ExecutorService pool, List<long[]> arrays, ToLongFunction<long[]> method, int passes)
      throws Exception {
    List<Callable<Long>> sums = new ArrayList<>();
    long elements = 0;
    for (long[] array : arrays) {
      sums.add(() -> method.applyAsLong(array));
      elements += array.length;
    }
    double best = 0;
    for (int pass = 0; pass < passes; pass++) {
      long start = System.nanoTime();
      long total = 0;
      for (var sum : pool.invokeAll(sums)) {
        total += sum.get();
      }
      double seconds = (System.nanoTime() - start) / 1e9;
      // The check keeps the compiler from dropping the reads.
      if (total != elements) {
        throw new IllegalStateException("read " + total + " ones, expected " + elements);
      }
      best = Math.max(best, elements * (double) Long.BYTES / seconds);
    }
    return best;
  }

  private static long sumUnrolled(long[] a) {
    long s0 = 0;
    long s1 = 0;
    long s2 = 0;
    long s3 = 0;
    long s4 = 0;
    long s5 = 0;
    long s6 = 0;
    long s7 = 0;
    for (int i = 0; i < a.length; i += UNROLL) {
      s0 += a[i];
      s1 += a[i + 1];
      s2 += a[i + 2];
      s3 += a[i + 3];
      s4 += a[i + 4];
      s5 += a[i + 5];
      s6 += a[i + 6];
      s7 += a[i + 7];
    }
    return s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7;
  }
}
