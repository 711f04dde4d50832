package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.HalfFloats;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;

/** Widens 16-bit floats in order. */
final class VectorWiden {

  private static final VectorSpecies<Integer> INTS = VectorMemory.INTS;
  private static final int LANES = INTS.length();
  private static final VectorSpecies<Short> HALVES =
      VectorSpecies.of(short.class, VectorShape.forBitSize(INTS.vectorBitSize() / 2));

  private VectorWiden() {}

  static void widen(DType type, short[] from, int count, float[] to) {
    int end = count - count % LANES;
    if (type == DType.BF16) {
      for (int i = 0; i < end; i += LANES) {
        load(from, i).lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats().intoArray(to, i);
      }
      for (int i = end; i < count; i++) {
        to[i] = HalfFloats.bf16(from[i]);
      }
    } else {
      for (int i = 0; i < end; i += LANES) {
        // The sign extended upwards lands in bits that f16() ignores, or is the sign.
        IntVector half = load(from, i);
        VectorHalfFloats.f16(half.lanewise(VectorOperators.LSHL, 13), half).intoArray(to, i);
      }
      for (int i = end; i < count; i++) {
        to[i] = HalfFloats.f16(from[i]);
      }
    }
  }

  private static IntVector load(short[] from, int i) {
    return (IntVector)
        ShortVector.fromArray(HALVES, from, i).convertShape(VectorOperators.S2I, INTS, 0);
  }
}
