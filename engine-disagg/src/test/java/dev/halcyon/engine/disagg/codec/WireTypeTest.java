package dev.halcyon.engine.disagg.codec;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class WireTypeTest {

  private static float rounded(WireType type, float value) {
    ByteBuffer data = ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN);
    type.write(value, data);
    assertThat(data.position()).isEqualTo(type.bytes());
    return type.read(data, 0);
  }

  @ParameterizedTest
  @EnumSource(
      value = WireType.class,
      names = {"FLOAT16", "BFLOAT16"})
  void everyElementComesBackAsItWas(WireType type) {
    ByteBuffer data = ByteBuffer.allocate(2).order(ByteOrder.LITTLE_ENDIAN);
    for (int bits = 0; bits < 1 << 16; bits++) {
      data.putShort(0, (short) bits);
      float value = type.read(data, 0);
      assertThat(Float.floatToIntBits(rounded(type, value)))
          .as("bits %x", bits)
          .isEqualTo(Float.floatToIntBits(value));
    }
  }

  /** float16 has 10 bits behind the point and steps of 2^-24 near 0; bfloat16 has 7 bits. */
  @ParameterizedTest
  @CsvSource({
    "FLOAT16, 0x1.002p0, 0x1.0p0", // 1 + 2^-11: halfway, 1 is even
    "FLOAT16, 0x1.006p0, 0x1.008p0", // 1 + 3 x 2^-11: halfway, 1 + 2 x 2^-10 is even
    "FLOAT16, 0x1.00202p0, 0x1.004p0",
    "FLOAT16, 65519.996, 65504",
    "FLOAT16, 65520, Infinity",
    "FLOAT16, -65520, -Infinity",
    "FLOAT16, 0x1.0p-25, 0",
    "FLOAT16, 0x1.002p-25, 0x1.0p-24",
    "FLOAT16, 0x1.8p-24, 0x1.0p-23", // 1.5 steps: halfway, 2 is even
    "FLOAT16, -0x1.ffep-15, -0x1.0p-14", // 1023.5 steps: halfway, 1024 is even
    "BFLOAT16, 0x1.01p0, 0x1.0p0", // 1 + 2^-8
    "BFLOAT16, 0x1.03p0, 0x1.04p0", // 1 + 3 x 2^-8
    "BFLOAT16, 0x1.0102p0, 0x1.02p0",
    "BFLOAT16, 0x1.fffffep127, Infinity",
    "FLOAT32, 0x1.fffffep127, 0x1.fffffep127",
  })
  void aValueBetweenGoesToTheNearest(WireType type, String value, String expected) {
    assertThat(rounded(type, Float.parseFloat(value))).isEqualTo(Float.parseFloat(expected));
  }

  @Test
  void whatIsNoNumberStaysNone() {
    float low = Float.intBitsToFloat(0x7f800001);
    assertThat(rounded(WireType.FLOAT16, low)).isNaN();
    assertThat(rounded(WireType.BFLOAT16, low)).isNaN();
  }
}
