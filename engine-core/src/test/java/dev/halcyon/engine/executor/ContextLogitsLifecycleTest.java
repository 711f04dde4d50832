package dev.halcyon.engine.executor;

import static dev.halcyon.engine.executor.ContextRig.both;
import static dev.halcyon.engine.executor.ContextRig.full;
import static dev.halcyon.engine.executor.ContextRig.fullBytes;
import static dev.halcyon.engine.executor.ContextRig.prompt;
import static dev.halcyon.engine.executor.ContextRig.request;
import static dev.halcyon.engine.executor.RiggedBackend.NO_DEVICE_STORAGE;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.EngineMetrics;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationDelta;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.TinyCheckpoint;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** How long the storage of context logits lives: cancelling, timeouts, closing, dropping. */
@Timeout(60)
public class ContextLogitsLifecycleTest {

  /** What the engines compute on. */
  protected TestBackend backend() {
    return TestBackend.CPU;
  }

  private static final int LENGTH = 91;

  /** Generates for longer than any test looks. */
  private static final SamplingParams LONG = both(1).toBuilder().maxTokens(150).build();

  @TempDir static Path directory;
  private static Path checkpoint;

  @BeforeAll
  static void writeCheckpoint() {
    checkpoint = TinyCheckpoint.write(directory.resolve("tiny"));
  }

  /**
   * @param onHost whether storage is to lie there
   */
  private ContextRig open(boolean onHost, int maxBatchSize) {
    ContextRig rig =
        new ContextRig(
            ContextRig.options(
                ContextRig.engine(backend(), checkpoint, 16)
                    .maxBatchSize(maxBatchSize)
                    .prefixReuse(false)));
    if (onHost) {
      rig.backend.fault(NO_DEVICE_STORAGE);
    }
    return rig;
  }

  private static void assertStored(ContextRig rig, boolean onHost, long bytes) {
    assertThat(rig.backend.deviceUsed()).isEqualTo(rig.idleBytes + (onHost ? 0 : bytes));
    assertThat(rig.backend.hostUsed()).isEqualTo(onHost ? bytes : 0);
    EngineMetrics metrics = rig.model.executor().metrics();
    assertThat(metrics.deviceMemoryUsed()).isEqualTo(rig.backend.deviceUsed());
    assertThat(metrics.hostMemoryUsed()).isEqualTo(rig.backend.hostUsed());
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void cancelInTheMiddleOfThePromptFreesStorageAtOnce(boolean onHost) {
    try (ContextRig rig = open(onHost, 4)) {
      GenerationHandle handle;
      try (StepGate gate = new StepGate(rig.model)) {
        handle = rig.submit(request(LENGTH, LONG));
        assertStored(rig, onHost, 0);
        // Fifteen rows a step beside the gate's: 91 take seven.
        gate.next();
        gate.next();
        gate.next();
        assertStored(rig, onHost, fullBytes(LENGTH));
        handle.cancel();
        gate.next();
        assertStored(rig, onHost, 0);
      }
      GenerationResult result = handle.await();
      assertThat(result.outputs().get(0).finishReason()).isEqualTo(FinishReason.CANCELLED);
      assertThat(result.outputs().get(0).tokenIds()).isEmpty();
      assertThat(result.contextLogits()).isNull();
      assertThat(result.promptLogprobs()).isNull();
      List<GenerationDelta> deltas = handle.stream().toList();
      assertThat(deltas).hasSize(1);
      assertThat(deltas.get(0).contextLogits()).isNull();
      assertThat(deltas.get(0).promptLogprobs()).isNull();
      result.close();
      assertServesAfter(rig);
    }
  }

  @Test
  void cancelOfAWaitingRequestFindsNoStorage() {
    try (ContextRig rig = open(false, 1)) {
      GenerationHandle handle;
      try (StepGate gate = new StepGate(rig.model)) {
        handle = rig.submit(request(LENGTH, LONG));
        gate.next();
        gate.next();
        assertStored(rig, false, 0);
        handle.cancel();
        gate.next();
        assertStored(rig, false, 0);
        GenerationResult result = handle.await();
        assertThat(result.outputs().get(0).finishReason()).isEqualTo(FinishReason.CANCELLED);
        assertThat(result.contextLogits()).isNull();
      }
      assertServesAfter(rig);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void cancelAfterTheFirstDeltaFreesWhatItHandedOut(boolean onHost) {
    try (ContextRig rig = open(onHost, 4)) {
      float[][] expected = rig.answer(9, full()).logits();
      GenerationHandle handle;
      LogitsView view;
      try (StepGate gate = new StepGate(rig.model)) {
        handle = rig.submit(request(9, LONG));
        Iterator<GenerationDelta> deltas = handle.stream().iterator();
        gate.next();
        gate.next();
        GenerationDelta first = deltas.next();
        view = first.contextLogits();
        Answer.assertSameRows(Answer.rows(view), expected);
        assertThat(first.promptLogprobs()).hasSize(9);
        assertStored(rig, onHost, fullBytes(9));
        handle.cancel();
        gate.next();
        assertStored(rig, onHost, 0);
      }
      assertThatThrownBy(() -> view.row(0))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageContaining("cancelled");
      assertThatThrownBy(view::rows).hasMessageContaining("cancelled");
      view.close();
      GenerationResult result = handle.await();
      assertThat(result.contextLogits()).isNull();
      assertThat(result.promptLogprobs()).as("on the heap, and complete").hasSize(9);
      assertThat(result.outputs().get(0).finishReason()).isEqualTo(FinishReason.CANCELLED);
      assertServesAfter(rig);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void timeoutInTheMiddleOfThePromptFreesStorageAtOnce(boolean onHost) throws Exception {
    try (ContextRig rig = open(onHost, 4)) {
      try (StepGate gate = new StepGate(rig.model)) {
        GenerationHandle handle =
            rig.submit(
                GenerationRequest.builder(prompt(LENGTH))
                    .params(LONG)
                    .timeout(Duration.ofSeconds(1))
                    .build());
        gate.next();
        gate.next();
        assertStored(rig, onHost, fullBytes(LENGTH));
        Thread.sleep(1050);
        gate.next();
        assertStored(rig, onHost, 0);
        GenerationResult result = handle.await();
        assertThat(result.outputs().get(0).finishReason()).isEqualTo(FinishReason.TIMEOUT);
        assertThat(result.contextLogits()).isNull();
        assertThat(result.promptLogprobs()).isNull();
      }
      assertServesAfter(rig);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void timeoutAfterThePromptKeepsItsLogits(boolean onHost) throws Exception {
    try (ContextRig rig = open(onHost, 4)) {
      Answer expected = rig.answer(9, both(1));
      GenerationHandle handle;
      try (StepGate gate = new StepGate(rig.model)) {
        handle =
            rig.submit(
                GenerationRequest.builder(prompt(9))
                    .params(LONG)
                    .timeout(Duration.ofSeconds(1))
                    .build());
        gate.next();
        gate.next();
        Thread.sleep(1050);
        gate.next();
      }
      GenerationResult result = handle.await();
      assertThat(result.outputs().get(0).finishReason()).isEqualTo(FinishReason.TIMEOUT);
      assertThat(result.outputs().get(0).tokenIds().size()).isBetween(1, 3);
      Answer answer = Answer.of(result);
      Answer.assertSameRows(answer.logits(), expected.logits());
      answer.assertSameLogprobs(expected.logprobs());
      assertStored(rig, onHost, fullBytes(9));
      result.close();
      assertServesAfter(rig);
    }
  }

  private static void assertServesAfter(ContextRig rig) {
    try (GenerationResult result = rig.run(LENGTH, full())) {
      assertThat(result.contextLogits().rows()).isEqualTo(LENGTH);
    }
    assertStored(rig, false, 0);
    assertThat(rig.model.executor().metrics().freeBlocks())
        .isEqualTo(rig.model.executor().metrics().totalBlocks());
  }

  /** What ends the life of storage that another thread reads. */
  private enum End {
    CANCEL,
    CLOSE_OF_THE_VIEW,
    CLOSE_OF_THE_ENGINE
  }

  @ParameterizedTest
  @EnumSource
  void readersOnOtherThreadsSeeRightRowsOrThatTheyAreGone(End end) throws Exception {
    ExecutorService readers = Executors.newFixedThreadPool(3);
    for (int round = 0; round < 10; round++) {
      try (ContextRig rig = open(end != End.CLOSE_OF_THE_ENGINE && round % 2 == 1, 4)) {
        float[][] expected = rig.answer(9, full()).logits();
        GenerationHandle handle = rig.submit(request(9, LONG));
        LogitsView view = handle.stream().iterator().next().contextLogits();
        List<Future<Integer>> reads = new ArrayList<>();
        CountDownLatch reading = new CountDownLatch(3);
        for (int i = 0; i < 3; i++) {
          reads.add(readers.submit(() -> readUntilGone(view, expected, reading)));
        }
        reading.await();
        switch (end) {
          case CANCEL -> handle.cancel();
          case CLOSE_OF_THE_VIEW -> view.close();
          case CLOSE_OF_THE_ENGINE -> rig.close();
        }
        if (end == End.CANCEL && !isCancelled(handle)) {
          // It had ended before, with its logits.
          view.close();
        }
        for (Future<Integer> read : reads) {
          assertThat(read.get(20, TimeUnit.SECONDS)).isPositive();
        }
      }
    }
    readers.shutdown();
  }

  private static boolean isCancelled(GenerationHandle handle) {
    return handle.await().outputs().get(0).finishReason() == FinishReason.CANCELLED;
  }

  /** Returns how many rows it read before they were gone. */
  private static int readUntilGone(LogitsView view, float[][] expected, CountDownLatch reading) {
    int read = 0;
    try {
      while (true) {
        float[] row = new float[TinyCheckpoint.VOCAB];
        int index = read % expected.length;
        view.copyRow(index, row);
        Answer.assertSameRows(new float[][] {row}, new float[][] {expected[index]});
        if (read++ == 0) {
          reading.countDown();
        }
      }
    } catch (IllegalStateException e) {
      assertThat(e).hasMessageMatching(".*(closed|cancelled).*");
      return read;
    }
  }

  @Test
  void resultsOnTheHostOutliveTheEngine() throws Exception {
    ContextRig rig = open(true, 4);
    Answer expected = rig.answer(LENGTH, both(2));
    GenerationResult result = rig.run(LENGTH, both(2));
    rig.close();
    assertThat(rig.backend.deviceUsed()).isZero();
    assertThat(rig.backend.hostUsed()).isEqualTo(fullBytes(LENGTH));
    Answer.of(result).assertSame(expected);
    assertClosesTwiceFromAnyThread(result);
    assertThat(rig.backend.hostUsed()).isZero();
  }

  @Test
  void resultsOnTheDeviceAreGoneWithTheEngineAndSaySo() throws Exception {
    ContextRig rig = open(false, 4);
    Answer expected = rig.answer(LENGTH, both(2));
    GenerationResult result = rig.run(LENGTH, both(2));
    rig.close();
    assertThat(rig.backend.deviceUsed()).isZero();
    assertThatThrownBy(() -> result.contextLogits().copyRow(0, new float[TinyCheckpoint.VOCAB]))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("device")
        .hasMessageContaining("engine was closed");
    assertThatThrownBy(() -> result.contextLogits().rows()).hasMessageContaining("closed");
    assertThat(List.copyOf(result.promptLogprobs())).isEqualTo(expected.logprobs());
    assertClosesTwiceFromAnyThread(result);
    assertThat(rig.backend.deviceUsed()).isZero();
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void closingTheViewOrTheResultOrBothFreesOnce(boolean onHost) throws Exception {
    try (ContextRig rig = open(onHost, 4)) {
      GenerationResult byResult = rig.run(LENGTH, full());
      GenerationResult byView = rig.run(9, full());
      byResult.close();
      assertStored(rig, onHost, fullBytes(9));
      byView.contextLogits().close();
      assertStored(rig, onHost, 0);
      assertClosesTwiceFromAnyThread(byResult);
      assertClosesTwiceFromAnyThread(byView);
      assertStored(rig, onHost, 0);
      assertThatThrownBy(() -> byView.contextLogits().row(0))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageContaining("closed");
    }
  }

  private static void assertClosesTwiceFromAnyThread(GenerationResult result) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(4);
    List<Callable<Void>> closes = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      boolean whole = i % 2 == 0;
      closes.add(
          () -> {
            if (whole) {
              result.close();
            } else {
              result.contextLogits().close();
            }
            return null;
          });
    }
    for (Future<Void> done : threads.invokeAll(closes)) {
      done.get();
    }
    threads.shutdown();
    result.close();
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void resultsThatAreDroppedAreFreed(boolean onHost) throws Exception {
    try (ContextRig rig = open(onHost, 4)) {
      for (int i = 0; i < 5; i++) {
        rig.run(LENGTH, full());
      }
      GenerationHandle unread = rig.submit(request(9, full()));
      unread.await();
      unread = null;
      assertEventually(
          () -> rig.backend.deviceUsed() == rig.idleBytes && rig.backend.hostUsed() == 0);
      assertServesAfter(rig);
    }
  }

  @Test
  void resultsThatAreDroppedAfterTheEngineIsClosedAreFreed() throws Exception {
    ContextRig rig = open(true, 4);
    GenerationResult[] held = {rig.run(LENGTH, full())};
    rig.close();
    System.gc();
    assertThat(held[0].contextLogits().rows()).isEqualTo(LENGTH);
    assertThat(rig.backend.hostUsed()).isEqualTo(fullBytes(LENGTH));
    held[0] = null;
    assertEventually(() -> rig.backend.hostUsed() == 0);
  }

  private static void assertEventually(BooleanSupplier condition) throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
    while (!condition.getAsBoolean() && System.nanoTime() < end) {
      System.gc();
      Thread.sleep(20);
    }
    assertThat(condition.getAsBoolean()).isTrue();
  }
}
