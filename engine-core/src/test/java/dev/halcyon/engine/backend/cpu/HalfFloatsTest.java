package dev.halcyon.engine.backend.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.HalfFloats;
import dev.halcyon.engine.backend.TestTensors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Widening of every 16-bit number there is. */
class HalfFloatsTest {

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void everyHalfAndBfloatIsWidenedExactly(boolean vector) {
    // Seven more than a multiple of any vector's length, for the tail.
    int count = 65536 + 7;
    short[] bits = new short[count];
    for (int i = 0; i < count; i++) {
      bits[i] = (short) i;
    }
    float[] halves = new float[count];
    float[] bfloats = new float[count];
    Kernels kernels = KernelChoice.choose(vector);
    kernels.widen(DType.F16, bits, count, halves);
    kernels.widen(DType.BF16, bits, count, bfloats);
    for (int i = 0; i < count; i++) {
      float half = TestTensors.fromHalf((short) i);
      if (Float.isNaN(half)) {
        assertThat(halves[i]).isNaN();
      } else {
        assertThat(halves[i]).isEqualTo(half);
      }
      assertThat(Float.floatToRawIntBits(bfloats[i])).isEqualTo(i << 16);
    }
  }

  @Test
  void knownHalves() {
    assertThat(HalfFloats.f16((short) 0x3c00)).isEqualTo(1f);
    assertThat(HalfFloats.f16((short) 0xc000)).isEqualTo(-2f);
    assertThat(HalfFloats.f16((short) 0x7bff)).isEqualTo(65504f);
    assertThat(HalfFloats.f16((short) 0x0001)).isEqualTo(0x1p-24f);
    assertThat(HalfFloats.f16((short) 0xfc00)).isEqualTo(Float.NEGATIVE_INFINITY);
  }
}
