package dev.halcyon.engine.logits;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Full results outlive their request, and are freed once, by whoever closes them. */
class FullLogitsTest {

  private static final int VOCAB = 97;
  private static final int ROWS = 20;

  /** A whole result, on the device or the host. */
  private static FullLogits result(Rig rig, Prompt prompt, boolean onHost) {
    try (Request request = new Request(rig, prompt, prompt.length())) {
      if (onHost) {
        rig.device.memory.account.failCall(0);
      }
      try (ContextLogits target = request.open(true, Request.NO_LOGPROBS)) {
        request.project(target, i -> BatchDescription.PLAIN);
        FullLogits full = target.takeFull();
        assertThat(full.onDevice()).isNotEqualTo(onHost);
        return full;
      }
    }
  }

  private static void requireClosed(FullLogits full, String why) {
    assertThatThrownBy(full::requireOpen)
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining(why);
    assertThatThrownBy(() -> full.read(0, new float[VOCAB]))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining(why);
    assertThatThrownBy(() -> full.copyTo(new FakeDevice(), "copy", e -> {}))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining(why);
    assertThatThrownBy(
            () ->
                new LogitsReduction(new FakeDevice())
                    .reduce(full, new PromptLogprobs(new int[full.rows()], 0, true)))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining(why);
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void closingFreesOnce(boolean onHost) {
    try (Rig rig = Rig.of(LogitsType.F32, VOCAB)) {
      int open = rig.device.memory.account.open();
      FullLogits full = result(rig, rig.prompt(1, ROWS), onHost);
      full.close();
      assertThat(rig.device.memory.account.open()).isEqualTo(open);
      assertThat(rig.device.host.account.open()).isZero();
      full.close();
      requireClosed(full, "are closed");
    }
  }

  @Test
  void resultsOnTheDeviceAreGoneWithTheEngine() {
    FullLogits full;
    try (Rig rig = Rig.of(LogitsType.BF16, VOCAB)) {
      full = result(rig, rig.prompt(2, ROWS), false);
    }
    requireClosed(full, "gone since its engine was closed");
    full.close();
    requireClosed(full, "gone since its engine was closed");
  }

  @Test
  void resultsOnTheHostOutliveTheEngine() {
    FakeHostMemory host;
    FullLogits full;
    Prompt prompt;
    Rig rig = Rig.of(LogitsType.BF16, VOCAB);
    prompt = rig.prompt(3, ROWS);
    full = result(rig, prompt, true);
    host = rig.device.host;
    rig.plan.close();
    assertThat(rig.device.memory.used()).isZero();
    prompt.requireFull(full);
    full.close();
    assertThat(host.used()).isZero();
    requireClosed(full, "are closed");
    assertThat(host.account.violations()).isEmpty();
  }

  @Test
  void thePlanForgetsResultsThatAreClosed() throws InterruptedException {
    try (Rig rig = Rig.of(LogitsType.F32, VOCAB)) {
      List<WeakReference<FullLogits>> closed = new ArrayList<>();
      for (int i = 0; i < 20; i++) {
        FullLogits full = result(rig, rig.prompt(i, ROWS), false);
        full.close();
        closed.add(new WeakReference<>(full));
      }
      for (int tries = 0; tries < 50 && closed.stream().anyMatch(r -> r.get() != null); tries++) {
        System.gc();
        Thread.sleep(10);
      }
      assertThat(closed).allMatch(reference -> reference.get() == null);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  @Timeout(20)
  void readingWhileAnotherThreadClosesGivesTheRowOrSaysWhyNot(boolean onHost) throws Exception {
    for (int round = 0; round < 40; round++) {
      try (Rig rig = Rig.of(LogitsType.F32, VOCAB)) {
        Prompt prompt = rig.prompt(round, ROWS);
        FullLogits full = result(rig, prompt, onHost);
        PromptLogprobs out = prompt.logprobs(0);
        List<Callable<Void>> readers = new ArrayList<>();
        for (int reader = 0; reader < 2; reader++) {
          readers.add(
              () -> {
                float[] row = new float[VOCAB];
                for (int i = 0; true; i = (i + 1) % ROWS) {
                  full.read(i, row);
                  assertThat(row).isEqualTo(prompt.logits(i));
                }
              });
        }
        // The device's owner reduces meanwhile.
        readers.add(
            () -> {
              LogitsReduction reduction = new LogitsReduction(rig.device);
              while (true) {
                reduction.reduce(full, out);
              }
            });
        closeWhile(readers, full);
        assertThat(rig.device.memory.account.violations()).isEmpty();
        assertThat(rig.device.host.account.violations()).isEmpty();
      }
    }
  }

  /** Runs actions, closes the result in their midst, and requires that it ended each of them. */
  private static void closeWhile(List<Callable<Void>> actions, FullLogits full) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(actions.size());
    try {
      CountDownLatch started = new CountDownLatch(actions.size());
      List<Future<Void>> running = new ArrayList<>();
      for (Callable<Void> action : actions) {
        running.add(
            threads.submit(
                () -> {
                  started.countDown();
                  return action.call();
                }));
      }
      started.await();
      Thread.sleep(1);
      full.close();
      for (Future<Void> future : running) {
        assertThatThrownBy(() -> future.get(10, TimeUnit.SECONDS))
            .hasCauseInstanceOf(IllegalStateException.class)
            .hasMessageContaining("These logits are closed");
      }
    } finally {
      threads.shutdownNow();
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aCopyLiesInAnotherPlaceWithTheSameValues(boolean onHost) {
    FakeDevice receiver = new FakeDevice();
    try (Rig rig = Rig.of(LogitsType.F32, VOCAB)) {
      Prompt prompt = rig.prompt(5, ROWS);
      FullLogits copy;
      try (FullLogits full = result(rig, prompt, onHost)) {
        copy = full.copyTo(receiver, "copy", e -> {});
      }
      assertThat(copy.onDevice()).isTrue();
      assertThat(receiver.memory.used()).isEqualTo(4L * ROWS * VOCAB);
      prompt.requireFull(copy);
      copy.close();
      assertThat(receiver.memory.used()).isZero();
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aCopyWithoutRoomOnTheDeviceLiesOnItsHostWithTheSameValues(boolean onHost) {
    FakeDevice receiver = new FakeDevice();
    receiver.memory.account.refuse();
    try (Rig rig = Rig.of(LogitsType.BF16, VOCAB)) {
      Prompt prompt = rig.prompt(6, ROWS);
      try (FullLogits full = result(rig, prompt, onHost)) {
        List<OutOfDeviceMemoryException> told = new ArrayList<>();
        FullLogits copy = full.copyTo(receiver, "copy", told::add);
        assertThat(told).hasSize(1);
        assertThat(copy.onDevice()).isFalse();
        prompt.requireFull(copy);
        copy.close();
        assertThat(receiver.host.used()).isZero();

        receiver.host.account.refuse();
        assertThatThrownBy(() -> full.copyTo(receiver, "copy", told::add))
            .isInstanceOf(OutOfHostMemoryException.class)
            .hasMessageContaining("copy");
        assertThat(told).as("told only of what took place").hasSize(1);
        prompt.requireFull(full);
      }
    }
    assertThat(receiver.host.account.open()).isZero();
  }

  @Test
  void aCopyIsFreedWhenSomethingFailsOnTheWay() {
    FakeDevice receiver = new FakeDevice();
    receiver.memory.account.refuse();
    try (Rig rig = Rig.of(LogitsType.F32, VOCAB)) {
      FullLogits full = result(rig, rig.prompt(7, ROWS), false);
      // Closed by another owner between the preparation and the first row.
      assertThatThrownBy(() -> full.copyTo(receiver, "copy", e -> full.close()))
          .isInstanceOf(IllegalStateException.class);
      assertThat(receiver.host.account.open()).isZero();
      FullLogits other = result(rig, rig.prompt(8, ROWS), false);
      assertThatThrownBy(
              () ->
                  other.copyTo(
                      receiver,
                      "copy",
                      e -> {
                        throw new IllegalArgumentException("callback");
                      }))
          .hasMessage("callback");
      assertThat(receiver.host.account.open()).as("after the callback failed").isZero();
      other.close();
    }
  }

  @Test
  void rowsThatAreNotThereAreRefused() {
    try (Rig rig = Rig.of(LogitsType.F32, VOCAB);
        FullLogits full = result(rig, rig.prompt(9, ROWS), false)) {
      for (int row : new int[] {-1, ROWS}) {
        assertThatThrownBy(() -> full.read(row, new float[VOCAB]))
            .isInstanceOf(IndexOutOfBoundsException.class)
            .hasMessageContaining("row " + row);
      }
    }
  }

  /** 40000 rows of 65536 float32 entries are 10 GiB, beyond what an int counts. */
  @Test
  void bytesAreCountedInLongs() {
    assertThat(FullLogits.bytes(40000, 65536)).isEqualTo(10_485_760_000L);
  }
}
