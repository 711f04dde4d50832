package dev.halcyon.engine.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.within;

import java.util.List;
import org.junit.jupiter.api.Test;

class SteadyRateTest {

  @Test
  void leavesTheFirstTokenOfASingleRequestOut() {
    // 3 tokens in the 30 ms after the first one: 100 a second.
    long[] times = {5_000_000, 15_000_000, 25_000_000, 35_000_000};
    assertThat(SteadyRate.of(List.of(times))).isCloseTo(100, within(1e-9));
  }

  @Test
  void countsOnlyWhileAllRequestsDecode() {
    // The second starts at 20 ms, the first ends at 40 ms. Within (20, 40] the first has tokens at
    // 30 and 40, the second at 25, 30 and 35: 5 tokens in 20 ms, 250 a second.
    long[] first = {0, 10_000_000, 20_000_000, 30_000_000, 40_000_000};
    long[] second = {20_000_000, 25_000_000, 30_000_000, 35_000_000, 45_000_000};
    assertThat(SteadyRate.of(List.of(first, second))).isCloseTo(250, within(1e-9));
  }

  @Test
  void refusesRequestsThatNeverDecodedTogether() {
    long[] first = {0, 10};
    long[] second = {10, 20};
    assertThatIllegalArgumentException()
        .isThrownBy(() -> SteadyRate.of(List.of(first, second)))
        .withMessageContaining("never decoding together");
  }
}
