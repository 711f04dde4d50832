package dev.halcyon.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.logits.OutOfHostMemoryException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Large pinned blocks are kept for the next ones, within the budget. */
@Tag("gpu")
class PinnedCacheTest {

  private static final long LARGE = PinnedBlock.LARGE_BYTES;

  private CudaBackend backend;
  private CudaHostMemory memory;

  @BeforeEach
  void open() {
    backend = TestBackends.open(new BackendOptions(2, 0, 4 * LARGE, 0), DType.BF16);
    memory = backend.hostMemory();
  }

  @AfterEach
  void close() {
    backend.close();
    assertThat(memory.used()).isZero();
    assertThat(memory.kept()).isZero();
  }

  @Test
  void aLargeBlockIsUsedAgainForAsMuchAndALittleLess() {
    memory.allocate(LARGE + 4000, "a").close();
    assertThat(memory.used()).isZero();
    assertThat(memory.kept()).isEqualTo(LARGE + 4000);
    try (CudaHostBuffer buffer = memory.allocate(LARGE, "b")) {
      assertThat(memory.kept()).isZero();
      assertThat(memory.used()).as("what is left over counts too").isEqualTo(LARGE + 4000);
      assertThat(buffer.bytes()).isEqualTo(LARGE);
      buffer.write(LARGE / 4 - 1, new float[] {5}, 0, 1);
      float[] read = new float[1];
      buffer.read(LARGE / 4 - 1, read, 0, 1);
      assertThat(read).containsExactly(5f);
      assertThatThrownBy(() -> buffer.read(LARGE / 4, read, 0, 1))
          .isInstanceOf(IndexOutOfBoundsException.class);
    }
    assertThat(memory.kept()).isEqualTo(LARGE + 4000);
  }

  @Test
  void muchSmallerRequestsLeaveItAlone() {
    memory.allocate(2 * LARGE, "a").close();
    try (CudaHostBuffer buffer = memory.allocate(LARGE, "b")) {
      assertThat(memory.used()).isEqualTo(buffer.bytes());
      assertThat(memory.kept()).isEqualTo(2 * LARGE);
    }
  }

  @Test
  void smallBlocksAreNotKept() {
    memory.allocate(LARGE - 1, "a").close();
    assertThat(memory.kept()).isZero();
  }

  @Test
  void whatIsKeptMakesRoomWithinTheBudget() {
    memory.allocate(3 * LARGE, "a").close();
    try (CudaHostBuffer most = memory.allocate(2 * LARGE, "b")) {
      assertThat(memory.kept()).as("3 and 2 of 4").isZero();
      assertThat(memory.used()).isEqualTo(most.bytes());
      assertThatThrownBy(() -> memory.allocate(2 * LARGE + 1, "c"))
          .isInstanceOf(OutOfHostMemoryException.class);
    }
  }

  @Test
  void aBlockThatWouldExceedTheBudgetByWhatIsLeftOverIsNotGiven() {
    CudaHostBuffer rest = memory.allocate(3 * LARGE - 100, "rest");
    memory.allocate(LARGE + 100, "a").close();
    try (CudaHostBuffer more = memory.allocate(50, "a little");
        CudaHostBuffer buffer = memory.allocate(LARGE + 50, "b")) {
      assertThat(memory.used()).isEqualTo(rest.bytes() + more.bytes() + buffer.bytes());
      assertThat(memory.kept()).isZero();
    } finally {
      rest.close();
    }
  }

  @Test
  void buffersOutliveTheBackendAndAreFreedThen() {
    CudaHostBuffer buffer = memory.allocate(LARGE, "a");
    memory.allocate(LARGE, "b").close();
    assertThat(memory.kept()).isEqualTo(LARGE);
    backend.close();
    assertThat(memory.kept()).isZero();
    buffer.write(0, new float[] {3}, 0, 1);
    buffer.close();
  }
}
