package dev.halcyon.engine.backend;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class DTypeTest {

  @ParameterizedTest
  @CsvSource({
    // BF16 has 8 significant bits, so steps of 1/4 from 32 to 64 and of 2 from 256 to 512; F16 has
    // 11
    // and steps of 1/32 and of 2 from 2048 on. sqrt(3584) = 59.8665.
    "BF16, 59.8665, 59.75",
    "F16, 59.8665, 59.875",
    "F32, 59.8665, 59.8665",
    "BF16, -59.8665, -59.75",
    // Half way goes to the even one.
    "BF16, 257, 256",
    "BF16, 259, 260",
    "F16, 2049, 2048",
    "F16, 2051, 2052",
    // F16's smallest step is 2^-24: 3 * 2^-25 lies between one and two of them.
    "F16, 8.940697e-8, 1.1920929e-7",
    "F16, 0, 0",
    "BF16, 48, 48",
  })
  void roundsToTheNearest(DType type, float value, float expected) {
    assertThat(type.round(value)).isEqualTo(expected);
  }
}
