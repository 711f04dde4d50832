package dev.halcyon.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.backend.DType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class KernelTargetTest {

  private static final int[] SUPPORTED = {75, 80, 86, 87, 89, 90, 100, 103, 120, 121};

  private static CudaDevice device(int major, int minor) {
    return new CudaDevice(0, "a GPU", major, minor, 132, 227 << 10, 50 << 20, true);
  }

  @ParameterizedTest
  @CsvSource({
    "8, 0, sm_80", // known, no own instructions
    "8, 9, sm_89",
    "9, 0, sm_90a",
    "10, 0, sm_100a",
    "8, 8, sm_87", // code of an older minor number runs
    "10, 9, sm_103",
    "11, 0, compute_103", // code of another major number does not: the driver translates
    "13, 0, compute_121"
  })
  void picksTheBestThatTheCompilerHas(int major, int minor, String architecture) {
    KernelTarget target = KernelTarget.of(device(major, minor), SUPPORTED, DType.BF16);
    assertThat(target.architecture()).isEqualTo(architecture);
    assertThat(target.isMachineCode()).isEqualTo(architecture.startsWith("sm"));
  }

  @Test
  void aCompilerOfNewerDevicesOnlyIsOfNoUse() {
    assertThatThrownBy(() -> KernelTarget.of(device(8, 0), new int[] {90, 100}, DType.F32))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("a GPU");
  }

  @Test
  void olderDevicesAreRefused() {
    assertThat(device(7, 5).unusable()).contains("7.5").contains("8.0");
    assertThat(device(8, 0).unusable()).isNull();
    assertThat(new CudaDevice(0, "a GPU", 9, 0, 132, 227 << 10, 50 << 20, false).unusable())
        .contains("memory pools");
  }
}
