package dev.halcyon.engine.disagg.transfer;

import static dev.halcyon.engine.disagg.transfer.KvTransportContract.soon;
import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.disagg.Leaks;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;

class PieceWorkersTest {

  private final List<Thread> ranOn = new CopyOnWriteArrayList<>();

  private void note() {
    ranOn.add(Thread.currentThread());
  }

  private static boolean noConnection(Runnable task) {
    throw new AssertionError("this is for the workers");
  }

  @Test
  void whatAWorkerHasDoneItDoesItself() throws Exception {
    Leaks before = Leaks.since();
    try (PieceWorkers workers = new PieceWorkers(2)) {
      CompletableFuture<Void> done = new CompletableFuture<>();
      workers.execute(
          () -> {
            note();
            workers.execute(this::note, PieceWorkersTest::noConnection);
            done.complete(null);
          },
          PieceWorkersTest::noConnection);
      soon(done);
      assertThat(ranOn).hasSize(2);
      assertThat(ranOn.get(1)).isSameAs(ranOn.get(0)).isNotSameAs(Thread.currentThread());
      assertThat(ranOn.get(0).getName()).startsWith("halcyon-kv-worker");
      assertThat(ranOn.get(0).isDaemon()).isTrue();
    }
    before.awaitNoThreads();
  }

  @Test
  void anotherTransportsWorkerIsNone() throws Exception {
    try (PieceWorkers workers = new PieceWorkers(1);
        PieceWorkers others = new PieceWorkers(1)) {
      CompletableFuture<Void> done = new CompletableFuture<>();
      Runnable last =
          () -> {
            note();
            done.complete(null);
          };
      workers.execute(
          () -> {
            note();
            others.execute(last, PieceWorkersTest::noConnection);
          },
          PieceWorkersTest::noConnection);
      soon(done);
      assertThat(ranOn).doesNotHaveDuplicates().hasSize(2);
    }
  }

  @Test
  void whatWaitsRunsBeforeTheEndAndWhatComesLaterOnItsOwnThread() throws Exception {
    PieceWorkers workers = new PieceWorkers(1);
    CountDownLatch gate = new CountDownLatch(1);
    workers.execute(
        () -> {
          try {
            gate.await();
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
        },
        PieceWorkersTest::noConnection);
    for (int i = 0; i < 5; i++) {
      workers.execute(this::note, PieceWorkersTest::noConnection);
    }
    CompletableFuture<Void> closing = CompletableFuture.runAsync(workers::close);
    assertThat(ranOn).isEmpty();
    gate.countDown();
    soon(closing);
    assertThat(ranOn).hasSize(5).doesNotContain(Thread.currentThread());
    workers.execute(this::note, PieceWorkersTest::noConnection);
    assertThat(ranOn).hasSize(6).last().isSameAs(Thread.currentThread());
    workers.close();
  }

  @Test
  void withNoneTheConnectionsThreadWorksAsLongAsThereIsOne() {
    try (PieceWorkers none = new PieceWorkers(0)) {
      Runnable[] given = {null};
      none.execute(
          this::note,
          task -> {
            given[0] = task;
            return true;
          });
      assertThat(ranOn).isEmpty();
      given[0].run();
      none.execute(this::note, task -> false);
      assertThat(ranOn).hasSize(2);
    }
  }
}
