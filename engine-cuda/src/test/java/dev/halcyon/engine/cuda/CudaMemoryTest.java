package dev.halcyon.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.bytedeco.cuda.global.cudart.cudaFree;
import static org.bytedeco.cuda.global.cudart.cudaMalloc;
import static org.bytedeco.cuda.global.cudart.cudaMemGetInfo;

import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.logits.LogitsType;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import java.util.Arrays;
import org.bytedeco.javacpp.SizeTPointer;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Device memory beyond the contract: what is cached, and a device that is really full. */
@Tag("gpu")
class CudaMemoryTest {

  private static final long MIB = 1L << 20;

  @Test
  void memoryThatIsUsedAgainIsZeroed() {
    float[] ones = new float[1 << 18];
    Arrays.fill(ones, 1);
    try (CudaBackend backend = TestBackends.open(64 * MIB, DType.F32)) {
      for (int i = 0; i < 3; i++) {
        try (CudaBuffer buffer = backend.memory().allocate(MIB, "a test")) {
          float[] read = new float[ones.length];
          backend.read(buffer, LogitsType.F32, 0, read.length, read, 0);
          assertThat(read).containsOnly(0f);
          backend.write(ones, 0, ones.length, buffer, 0);
        }
      }
      assertThat(backend.memory().peak()).isEqualTo(MIB + backend.memory().overhead());
      assertThat(backend.memory().reserved()).isGreaterThanOrEqualTo(MIB);
    }
  }

  @Test
  void anyThreadMayCloseABuffer() throws InterruptedException {
    try (CudaBackend backend = TestBackends.open(64 * MIB, DType.F32)) {
      CudaBuffer buffer = backend.memory().allocate(MIB, "a test");
      Thread[] threads = new Thread[4];
      for (int i = 0; i < threads.length; i++) {
        threads[i] = new Thread(buffer::close);
        threads[i].start();
      }
      for (Thread thread : threads) {
        thread.join();
      }
      assertThat(backend.memory().used()).isZero();
      assertThatThrownBy(buffer::address).isInstanceOf(IllegalStateException.class);
    }
  }

  @Test
  void closingTheBackendTwiceOrBeforeABufferIsHarmless() {
    CudaBackend backend = TestBackends.open(64 * MIB, DType.F32);
    CudaBuffer late = backend.memory().allocate(MIB, "a test");
    backend.close();
    backend.close();
    late.close();
    late.close();
    assertThat(backend.memory().used()).isZero();
    assertThatThrownBy(() -> backend.memory().allocate(1, "too late"))
        .isInstanceOf(IllegalStateException.class);
  }

  /**
   * Another allocation takes all of the device but 3 GiB. What the pool keeps goes back when an
   * allocation needs it, and one that can't be is refused without an error that stays.
   */
  @Test
  void aFullDeviceRefusesAndGoesOn() {
    try (CudaBackend backend = TestBackends.open(1L << 40, DType.F32)) {
      CudaMemory memory = backend.memory();
      DevicePointer hog = new DevicePointer();
      CudaErrors.check(cudaMalloc(hog, free() - 3072 * MIB), "filling the device");
      try {
        for (int i = 0; i < 2; i++) {
          CudaBuffer first = memory.allocate(1024 * MIB, "first");
          CudaBuffer second = memory.allocate(1024 * MIB, "second");
          first.close();
          second.close();
        }
        assertThat(memory.reserved()).isGreaterThanOrEqualTo(2048 * MIB);
        assertThat(memory.available())
            .as("what the pool keeps can be allocated too")
            .isBetween(2900 * MIB, 3072 * MIB);
        // What is kept is in two parts, so this needs the device.
        memory.allocate(2560 * MIB, "more than either part").close();
        assertThatThrownBy(() -> memory.allocate(4096 * MIB, "too much"))
            .isInstanceOf(OutOfDeviceMemoryException.class)
            .hasMessageContaining("too much");
        assertThat(memory.used()).isZero();
        try (CudaBuffer small = memory.allocate(4, "a little")) {
          backend.write(new float[] {7}, 0, 1, small, 0);
          backend.transformLogits(small, 1, 1, 3, 0);
          float[] read = new float[1];
          backend.read(small, LogitsType.F32, 0, 1, read, 0);
          assertThat(read).containsExactly(21);
        }
      } finally {
        cudaFree(hog);
      }
    }
  }

  private static long free() {
    try (SizeTPointer free = new SizeTPointer(1);
        SizeTPointer total = new SizeTPointer(1)) {
      CudaErrors.check(cudaMemGetInfo(free, total), "reading how much memory is free");
      return free.get();
    }
  }
}
