package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.HalfFloats;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;

/** The vector form of {@link HalfFloats}. */
final class VectorHalfFloats {

  private VectorHalfFloats() {}

  /**
   * Halves to floats.
   *
   * @param shifted exponent and mantissa where a float's exponent and upper mantissa are; other
   *     bits are ignored
   * @param sign the sign in the highest bit; other bits are ignored
   */
  static FloatVector f16(IntVector shifted, IntVector sign) {
    IntVector magnitude = shifted.and(0x7fff << 13);
    IntVector value = magnitude.reinterpretAsFloats().mul(HalfFloats.F16_SCALE).reinterpretAsInts();
    // All ones where the number is infinite or not a number: integer arithmetic, as a vector mask
    // is slow
    // on some JDKs.
    IntVector special =
        magnitude
            .lanewise(VectorOperators.NEG)
            .add(HalfFloats.F16_SPECIAL - 1)
            .lanewise(VectorOperators.ASHR, 31);
    return value
        .or(special.and(HalfFloats.F32_SPECIAL))
        .or(sign.and(0x80000000))
        .reinterpretAsFloats();
  }
}
