package dev.halcyon.engine.sampling;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

/** The known answers that the authors of Philox publish with Random123 (philox4x32, 10 rounds). */
class PhiloxTest {

  @Test
  void givesTheKnownAnswers() {
    assertThat(block(0, 0, 0, 0, 0, 0))
        .containsExactly(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
    assertThat(block(-1, -1, -1, -1, -1, -1))
        .containsExactly(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
    assertThat(block(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0))
        .containsExactly(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
  }

  private static int[] block(int c0, int c1, int c2, int c3, int k0, int k1) {
    int[] out = new int[4];
    Philox.block(c0, c1, c2, c3, ((long) k1 << 32) | (k0 & 0xFFFFFFFFL), out);
    return out;
  }
}
