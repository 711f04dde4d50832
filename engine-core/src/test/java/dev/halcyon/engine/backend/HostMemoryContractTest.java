package dev.halcyon.engine.backend;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.logits.HostBuffer;
import dev.halcyon.engine.logits.HostMemory;
import dev.halcyon.engine.logits.OutOfHostMemoryException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What every backend's host memory must do. A backend's test extends this. */
public abstract class HostMemoryContractTest {

  private static final long BUDGET = 1L << 20;

  private Backend backend;
  private HostMemory memory;

  /** Opens the backend under test. */
  protected abstract Backend open(BackendOptions options);

  @BeforeEach
  void openBackend() {
    backend = open(new BackendOptions(1, 1L << 20, BUDGET, 0));
    memory = backend.hostMemory();
  }

  @AfterEach
  void closeBackend() {
    backend.close();
    assertThat(memory.used()).as("leaked host memory").isZero();
  }

  @Test
  void sizesAreCountedExactlyAndFreedOnce() {
    assertThat(memory.capacity()).isEqualTo(BUDGET);
    assertThat(memory.maxBufferBytes()).isGreaterThan(1L << 30);
    HostBuffer a = memory.allocate(4000, "a");
    HostBuffer b = memory.allocate(0, "nothing");
    assertThat(a.bytes()).isEqualTo(4000);
    assertThat(memory.used()).isEqualTo(4000);
    a.close();
    a.close();
    b.close();
    assertThat(memory.used()).isZero();
  }

  @Test
  void runningOutHoldsNothing() {
    try (HostBuffer most = memory.allocate(BUDGET - 100, "most of it")) {
      assertThatThrownBy(() -> memory.allocate(101, "a straw"))
          .isInstanceOfSatisfying(
              OutOfHostMemoryException.class, e -> assertThat(e.requestedBytes()).isEqualTo(101))
          .hasMessageContaining("a straw")
          .hasMessageContaining("100 bytes are left");
      memory.allocate(100, "the rest").close();
      assertThat(memory.used()).isEqualTo(most.bytes());
    }
    assertThatThrownBy(() -> memory.allocate(Long.MAX_VALUE, "too much"))
        .isInstanceOf(OutOfHostMemoryException.class);
    assertThatThrownBy(() -> memory.allocate(-1, "less than nothing"))
        .isInstanceOf(IllegalArgumentException.class);
    assertThat(memory.used()).isZero();
  }

  /** The budget is no promise: the machine may have less. */
  @Test
  void aBufferLargerThanTheLargestIsRefusedWhateverTheBudget() {
    try (Backend rich = open(new BackendOptions(1, 1L << 20, Long.MAX_VALUE, 0))) {
      HostMemory plenty = rich.hostMemory();
      long bytes = plenty.maxBufferBytes() + 1;
      assertThatThrownBy(() -> plenty.allocate(bytes, "more than one buffer"))
          .isInstanceOf(OutOfHostMemoryException.class)
          .hasMessageContaining(String.valueOf(bytes));
      assertThat(plenty.used()).isZero();
    }
  }

  @Test
  void aBudgetOfZeroIsAPartOfTheMachine() {
    try (Backend open = open(new BackendOptions(1, 1L << 20, 0, 0))) {
      assertThat(open.hostMemory().capacity()).isGreaterThan(64L << 20);
    }
    assertThatThrownBy(() -> open(new BackendOptions(1, 1L << 20, -1, 0)))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("hostMemoryBytes");
  }

  @Test
  void elementsAreKept() {
    try (HostBuffer buffer = memory.allocate(20, "a test")) {
      buffer.write(0, new float[] {1, 2, 3, 4, 5}, 0, 5);
      buffer.write(3, new float[] {0, 8, 9}, 1, 2);
      float[] to = {7, 7, 7, 7};
      buffer.read(2, to, 1, 3);
      assertThat(to).containsExactly(7, 3, 8, 9);
    }
  }

  /** First element, count, index in an array of 4, for a buffer of 5 and a half. */
  @ParameterizedTest
  @CsvSource({"-1, 1, 0", "3, 3, 0", "5, 1, 0", "0, -1, 0", "0, 3, 2", "0, 2, -1"})
  void rangesLieInside(long first, int count, int index) {
    try (HostBuffer buffer = memory.allocate(22, "a test")) {
      float[] array = {1, 1, 1, 1};
      assertThatThrownBy(() -> buffer.write(first, array, index, count))
          .isInstanceOf(IndexOutOfBoundsException.class);
      assertThatThrownBy(() -> buffer.read(first, array, index, count))
          .isInstanceOf(IndexOutOfBoundsException.class);
      assertThatThrownBy(() -> buffer.read(1L << 32, array, 0, 1))
          .isInstanceOf(IndexOutOfBoundsException.class);
    }
  }

  @Test
  void aClosedBufferIsNotUsed() {
    HostBuffer buffer = memory.allocate(8, "a test");
    buffer.close();
    assertThatThrownBy(() -> buffer.read(0, new float[1], 0, 1))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("a test");
    assertThatThrownBy(() -> buffer.write(0, new float[1], 0, 1))
        .isInstanceOf(IllegalStateException.class);
  }

  @Test
  void buffersOutliveTheBackend() {
    Backend brief = open(new BackendOptions(1, 1L << 20, BUDGET, 0));
    HostMemory its = brief.hostMemory();
    HostBuffer buffer = its.allocate(4, "a result");
    buffer.write(0, new float[] {3}, 0, 1);
    brief.close();
    float[] to = new float[1];
    buffer.read(0, to, 0, 1);
    assertThat(to[0]).isEqualTo(3);
    its.allocate(4, "a later result").close();
    buffer.close();
    assertThat(its.used()).isZero();
  }

  @Test
  @Timeout(value = 30, unit = TimeUnit.SECONDS)
  void readsThatRaceWithCloseGiveTheirValuesOrFail() throws Exception {
    int count = 16_384;
    float[] ones = new float[count];
    Arrays.fill(ones, 1);
    ExecutorService readers = Executors.newFixedThreadPool(2);
    try {
      for (int round = 0; round < 100; round++) {
        HostBuffer buffer = memory.allocate(4L * count, "a test");
        buffer.write(0, ones, 0, count);
        List<Future<Integer>> results = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
          results.add(readers.submit(() -> readsUntilClosed(buffer, ones)));
        }
        Thread.yield();
        buffer.close();
        for (Future<Integer> result : results) {
          assertThat(result.get()).isNotNegative();
        }
      }
    } finally {
      readers.shutdownNow();
    }
  }

  /** How many reads gave the values; -1 once one gave others. */
  private static int readsUntilClosed(HostBuffer buffer, float[] values) {
    float[] to = new float[values.length];
    for (int reads = 0; ; reads++) {
      try {
        buffer.read(0, to, 0, to.length);
      } catch (IllegalStateException closed) {
        return reads;
      }
      if (!Arrays.equals(to, values)) {
        return -1;
      }
    }
  }

  @Test
  void theBudgetHoldsForManyThreads() throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(4);
    try {
      List<Future<Integer>> results = new ArrayList<>();
      for (int i = 0; i < 4; i++) {
        results.add(threads.submit(() -> takeAndGiveBack(memory)));
      }
      for (Future<Integer> result : results) {
        assertThat(result.get()).isZero();
      }
    } finally {
      threads.shutdownNow();
    }
    assertThat(memory.used()).isZero();
  }

  /** Holds up to two fifths of the budget, as four threads can't at once; counts overruns seen. */
  private static int takeAndGiveBack(HostMemory memory) {
    int overruns = 0;
    for (int i = 0; i < 2000; i++) {
      try (HostBuffer taken = memory.allocate(BUDGET * 2 / 5, "a test")) {
        overruns += memory.used() > BUDGET || taken.bytes() > memory.used() ? 1 : 0;
      } catch (OutOfHostMemoryException e) {
        overruns += e.requestedBytes() == BUDGET * 2 / 5 ? 0 : 1;
      }
    }
    return overruns;
  }
}
