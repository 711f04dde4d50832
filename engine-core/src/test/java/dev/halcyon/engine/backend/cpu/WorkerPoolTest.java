package dev.halcyon.engine.backend.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.management.ManagementFactory;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(30)
class WorkerPoolTest {

  @Test
  void everyPieceRunsOnceWithAWorkerOfItsOwn() {
    try (WorkerPool pool = new WorkerPool(3)) {
      for (int count = 0; count < 300; count++) {
        AtomicIntegerArray runs = new AtomicIntegerArray(count);
        AtomicIntegerArray busy = new AtomicIntegerArray(3);
        pool.run(
            count,
            (index, worker) -> {
              assertThat(busy.getAndIncrement(worker)).isZero();
              runs.incrementAndGet(index);
              busy.decrementAndGet(worker);
            });
        for (int i = 0; i < count; i++) {
          assertThat(runs.get(i)).isEqualTo(1);
        }
      }
    }
  }

  @Test
  void aFailureReachesTheCallerAndThePoolGoesOn() {
    try (WorkerPool pool = new WorkerPool(2)) {
      for (int round = 0; round < 50; round++) {
        IllegalStateException failure = new IllegalStateException("piece 7");
        assertThatThrownBy(
                () ->
                    pool.run(
                        20,
                        (index, worker) -> {
                          if (index == 7) {
                            throw failure;
                          }
                        }))
            .isSameAs(failure);
        AtomicInteger runs = new AtomicInteger();
        pool.run(20, (index, worker) -> runs.incrementAndGet());
        assertThat(runs).hasValue(20);
      }
    }
  }

  @Test
  void workersWakeAfterTheyParkedAndDoNotBurnWhileIdle() throws InterruptedException {
    try (WorkerPool pool = new WorkerPool(2)) {
      AtomicInteger runs = new AtomicInteger();
      for (int round = 0; round < 5; round++) {
        pool.run(4, (index, worker) -> runs.incrementAndGet());
        Thread.sleep(20);
      }
      assertThat(runs).hasValue(20);
      Thread worker =
          Thread.getAllStackTraces().keySet().stream()
              .filter(t -> t.getName().equals("halcyon-cpu-1") && t.isAlive())
              .findFirst()
              .orElseThrow();
      assertThat(worker.isDaemon()).isTrue();
      long before = ManagementFactory.getThreadMXBean().getThreadCpuTime(worker.getId());
      Thread.sleep(100);
      long after = ManagementFactory.getThreadMXBean().getThreadCpuTime(worker.getId());
      assertThat(after - before).isLessThan(10_000_000);
    }
  }

  @Test
  void closeEndsTheThreadsAndLaterRunsAreRefused() {
    WorkerPool pool = new WorkerPool(2);
    Thread[] seen = new Thread[64];
    pool.run(64, (index, worker) -> seen[index] = Thread.currentThread());
    pool.close();
    pool.close();
    for (Thread thread : seen) {
      assertThat(thread == Thread.currentThread() || !thread.isAlive()).isTrue();
    }
    assertThatThrownBy(() -> pool.run(1, (index, worker) -> {}))
        .isInstanceOf(IllegalStateException.class);
  }

  @Test
  void aPoolOfOneRunsInTheCaller() {
    try (WorkerPool pool = new WorkerPool(1)) {
      Thread caller = Thread.currentThread();
      pool.run(3, (index, worker) -> assertThat(Thread.currentThread()).isSameAs(caller));
      assertThat(pool.threads()).isEqualTo(1);
    }
    assertThatThrownBy(() -> new WorkerPool(0)).isInstanceOf(IllegalArgumentException.class);
  }
}
