package dev.halcyon.engine.backend.cpu;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorMask;
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
    VectorMask<Integer> special = magnitude.compare(VectorOperators.GE, HalfFloats.F16_SPECIAL);
    value = value.blend(value.or(HalfFloats.F32_SPECIAL), special);
    return value.or(sign.and(0x80000000)).reinterpretAsFloats();
  }
}
