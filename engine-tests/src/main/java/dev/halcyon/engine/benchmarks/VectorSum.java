package dev.halcyon.engine.benchmarks;

import jdk.incubator.vector.LongVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/** Sums longs in the machine's widest vectors. Apart, so that it loads only with the module. */
final class VectorSum {

  private static final VectorSpecies<Long> SPECIES = LongVector.SPECIES_PREFERRED;

  private VectorSum() {}

  static long of(long[] a) {
    int lanes = SPECIES.length();
    LongVector s0 = LongVector.zero(SPECIES);
    LongVector s1 = s0;
    LongVector s2 = s0;
    LongVector s3 = s0;
    int end = a.length - a.length % (4 * lanes);
    for (int i = 0; i < end; i += 4 * lanes) {
      s0 = s0.add(LongVector.fromArray(SPECIES, a, i));
      s1 = s1.add(LongVector.fromArray(SPECIES, a, i + lanes));
      s2 = s2.add(LongVector.fromArray(SPECIES, a, i + 2 * lanes));
      s3 = s3.add(LongVector.fromArray(SPECIES, a, i + 3 * lanes));
    }
    long sum = s0.add(s1).add(s2.add(s3)).reduceLanes(VectorOperators.ADD);
    for (int i = end; i < a.length; i++) {
      sum += a[i];
    }
    return sum;
  }
}
