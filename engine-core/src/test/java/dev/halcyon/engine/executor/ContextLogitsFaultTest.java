package dev.halcyon.engine.executor;

import static dev.halcyon.engine.executor.ContextRig.both;
import static dev.halcyon.engine.executor.ContextRig.compact;
import static dev.halcyon.engine.executor.ContextRig.full;
import static dev.halcyon.engine.executor.ContextRig.fullBytes;
import static dev.halcyon.engine.executor.ContextRig.greedy;
import static dev.halcyon.engine.executor.ContextRig.request;
import static dev.halcyon.engine.executor.RiggedBackend.DEVICE;
import static dev.halcyon.engine.executor.RiggedBackend.HOST;
import static dev.halcyon.engine.executor.RiggedBackend.NO_DEVICE_STORAGE;
import static dev.halcyon.engine.executor.RiggedBackend.STORAGE;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.halcyon.engine.EngineFailedException;
import dev.halcyon.engine.EngineOptions;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.RequestOutOfMemoryException;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.executor.RiggedBackend.Fault;
import dev.halcyon.engine.logits.BatchDescription;
import dev.halcyon.engine.logits.OutOfHostMemoryException;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Memory that runs out, and backends that break, in steps with requests for context logits: what is
 * handed out is right, a failure is typed and its request's own, and nothing leaks.
 */
@Timeout(60)
public class ContextLogitsFaultTest {

  /** What the engines compute on. */
  protected TestBackend backend() {
    return TestBackend.CPU;
  }

  private static final BatchDescription WHOLE = new BatchDescription(false, false, false, true);

  @TempDir static Path directory;
  private static Path checkpoint;

  @BeforeAll
  static void writeCheckpoint() {
    checkpoint = TinyCheckpoint.write(directory.resolve("tiny"));
  }

  /**
   * Requests that start together.
   *
   * @param whole whether their steps are not eligible for bounded projection
   */
  private record Scenario(
      String name, int maxBatchTokens, boolean whole, List<GenerationRequest> requests) {

    @Override
    public String toString() {
      return name;
    }

    ContextRig open(TestBackend backend) {
      EngineOptions options =
          ContextRig.options(
              ContextRig.engine(backend, checkpoint, maxBatchTokens).prefixReuse(false));
      return new ContextRig(options, chunks -> whole ? WHOLE : BatchDescription.PLAIN);
    }
  }

  static Stream<Scenario> scenarios() {
    List<GenerationRequest> mixed =
        List.of(
            request(20, greedy().build()),
            request(91, full()),
            request(70, compact(2)),
            request(33, both(0)),
            request(5, greedy().n(2).build()),
            request(1, both(3)));
    return Stream.of(
        new Scenario("full, one chunk", 256, false, List.of(request(200, full()))),
        new Scenario("full, many chunks", 40, false, List.of(request(200, full()))),
        new Scenario("compact, one chunk", 256, false, List.of(request(200, compact(3)))),
        new Scenario("compact, many chunks", 40, false, List.of(request(91, compact(0)))),
        new Scenario("both, one chunk", 256, false, List.of(request(200, both(2)))),
        new Scenario("both, many chunks", 40, false, List.of(request(91, both(2)))),
        new Scenario("mixed, large steps", 256, false, mixed),
        new Scenario("mixed, small steps", 48, false, mixed),
        new Scenario("mixed, projected whole", 96, true, mixed));
  }

  /** Which optional allocations fail; a reduction on the device counts as one. */
  private enum Failing {
    /** The n-th alone. */
    ONE,
    /** The n-th and whatever follows. */
    ALL_FROM,
    /** Storage on the device always, and the n-th on the host. */
    ONE_ON_HOST
  }

  /** A fault for the n-th allocation, from 1, which counts them. */
  private static final class NthFault implements Fault {

    private final Failing failing;
    private final int n;
    private final AtomicInteger seen = new AtomicInteger();

    NthFault(Failing failing, int n) {
      this.failing = failing;
      this.n = n;
    }

    boolean occurred() {
      return seen.get() >= n;
    }

    @Override
    public void check(String operation, String purpose, long bytes) {
      boolean device = operation.equals(DEVICE) || operation.equals("reduce");
      if (failing == Failing.ONE_ON_HOST && device) {
        if (purpose.startsWith(STORAGE)) {
          throw RiggedBackend.outOfDevice(purpose, bytes);
        }
        return;
      }
      if (!device && !operation.equals(HOST)) {
        return;
      }
      int number = seen.incrementAndGet();
      if (number == n || (number > n && failing == Failing.ALL_FROM)) {
        if (device) {
          throw RiggedBackend.outOfDevice(purpose, bytes);
        }
        throw new OutOfHostMemoryException(purpose, bytes, 5);
      }
    }
  }

  @ParameterizedTest
  @MethodSource("scenarios")
  void everyAllocationMayFail(Scenario scenario) {
    ContextRig rig = scenario.open(backend());
    List<Answer> expected = new ArrayList<>();
    for (GenerationRequest request : scenario.requests()) {
      expected.add(rig.answer(request.promptIds().length, request.params()));
    }
    for (Failing failing : Failing.values()) {
      int n = 0;
      NthFault fault;
      do {
        fault = new NthFault(failing, ++n);
        int failed = sweep(rig, scenario, fault, expected);
        if (failing == Failing.ONE && !scenario.whole()) {
          assertThat(failed).as("something else takes the place of any one").isZero();
        } else if (failing == Failing.ONE_ON_HOST && !scenario.whole()) {
          assertThat(failed).isEqualTo(fault.occurred() ? 1 : 0);
        } else if (failing == Failing.ONE) {
          assertThat(failed).isLessThanOrEqualTo(1);
        }
        assertServes(rig);
        assertNothingHeld(rig);
      } while (fault.occurred());
      boolean stores = scenario.requests().stream().anyMatch(r -> r.params().returnContextLogits());
      assertThat(n).as("runs with %s failing", failing).isGreaterThan(stores ? 1 : 0);
    }
    rig.close();
    assertThat(rig.backend.deviceUsed()).isZero();
    assertThat(rig.backend.hostUsed()).isZero();
  }

  /** Runs the requests under a fault and returns how many failed. */
  private static int sweep(
      ContextRig rig, Scenario scenario, NthFault fault, List<Answer> expected) {
    List<GenerationHandle> handles = new ArrayList<>();
    try (StepGate gate = new StepGate(rig.model)) {
      for (GenerationRequest request : scenario.requests()) {
        handles.add(rig.submit(request));
      }
      rig.backend.fault(fault);
    }
    int failed = 0;
    for (int i = 0; i < handles.size(); i++) {
      try (GenerationResult result = handles.get(i).await()) {
        Answer.of(result).assertSame(expected.get(i));
      } catch (RequestOutOfMemoryException e) {
        GenerationRequest request = scenario.requests().get(i);
        assertThat(expected.get(i).logits() != null || scenario.whole())
            .as("only storage can be missing: %s", request.params())
            .isTrue();
        if (!scenario.whole()) {
          assertThat(e.requestedBytes()).isEqualTo(fullBytes(request.promptIds().length));
        }
        assertThat(e.requestedBytes()).isPositive();
        assertThat(e).hasMessageContaining("asked for " + e.requestedBytes() + " bytes");
        failed++;
      }
    }
    rig.backend.fault(RiggedBackend.NONE);
    return failed;
  }

  private static void assertServes(ContextRig rig) {
    try (GenerationResult result = rig.run(7, both(1))) {
      assertThat(result.contextLogits().rows()).isEqualTo(7);
      assertThat(result.promptLogprobs()).hasSize(7);
    }
  }

  private static void assertNothingHeld(ContextRig rig) {
    assertThat(rig.backend.deviceUsed()).isEqualTo(rig.idleBytes);
    assertThat(rig.backend.hostUsed()).isZero();
    assertThat(rig.model.executor().metrics().freeBlocks())
        .isEqualTo(rig.model.executor().metrics().totalBlocks());
  }

  private ContextRig open(int maxBatchTokens) {
    return new ContextRig(
        ContextRig.options(ContextRig.engine(backend(), checkpoint, maxBatchTokens)));
  }

  @ParameterizedTest
  @ValueSource(ints = {16, 256})
  void theHostTakesWhatTheDeviceHasNoRoomForWithOneWarning(int maxBatchTokens) {
    try (ContextRig rig = open(maxBatchTokens)) {
      Answer first = rig.answer(91, both(2));
      Answer second = rig.answer(40, full());
      rig.backend.fault(NO_DEVICE_STORAGE);
      PrintStream original = System.err;
      ByteArrayOutputStream log = new ByteArrayOutputStream();
      System.setErr(new PrintStream(log, true, StandardCharsets.UTF_8));
      GenerationResult a;
      GenerationResult b;
      try {
        GenerationHandle one = rig.submit(request(91, both(2)));
        GenerationHandle two = rig.submit(request(40, full()));
        a = one.await();
        b = two.await();
      } finally {
        System.setErr(original);
      }
      Answer.of(a).assertSame(first);
      Answer.of(b).assertSame(second);
      List<String> warnings =
          log.toString(StandardCharsets.UTF_8)
              .lines()
              .filter(line -> line.contains("host memory"))
              .toList();
      assertThat(warnings).hasSize(2);
      assertThat(warnings).anyMatch(line -> line.contains("request " + a.requestId() + " "));
      assertThat(warnings).anyMatch(line -> line.contains("request " + b.requestId() + " "));
      assertThat(warnings).anyMatch(line -> line.contains(fullBytes(91) + " bytes"));
      assertThat(rig.model.executor().metrics().hostMemoryUsed())
          .isEqualTo(fullBytes(91) + fullBytes(40));
      assertThat(rig.backend.deviceUsed()).isEqualTo(rig.idleBytes);
      a.close();
      assertThat(rig.backend.hostUsed()).isEqualTo(fullBytes(40));
      b.close();
      assertNothingHeld(rig);
    }
  }

  @Test
  void whereNeitherHasRoomThatRequestAloneFails() {
    try (ContextRig rig = open(64)) {
      Answer plain = rig.answer(30, greedy().build());
      Answer logprobs = rig.answer(50, compact(1));
      rig.backend.fault(NO_DEVICE_STORAGE);
      rig.backend.hostBudget(fullBytes(91) - 1);
      List<GenerationHandle> handles = new ArrayList<>();
      try (StepGate gate = new StepGate(rig.model)) {
        handles.add(rig.submit(request(30, greedy().build())));
        handles.add(rig.submit(request(91, full())));
        handles.add(rig.submit(request(50, compact(1))));
      }
      Answer.of(handles.get(0).await()).assertSame(plain);
      Answer.of(handles.get(2).await()).assertSame(logprobs);
      RequestOutOfMemoryException error =
          catchThrowableOfType(RequestOutOfMemoryException.class, handles.get(1)::await);
      // 91 rows of 448 float32 entries.
      assertThat(error.requestedBytes()).isEqualTo(91 * 448 * 4);
      assertThat(error).hasMessageContaining("163072 bytes").hasMessageContaining("host memory");
      assertThatThrownBy(() -> handles.get(1).stream().toList()).isSameAs(error);
      assertNothingHeld(rig);
      rig.backend.hostBudget(fullBytes(91));
      try (GenerationResult result = rig.run(91, full())) {
        assertThat(result.contextLogits().rows()).isEqualTo(91);
      }
    }
  }

  /** Where the Java heap may run out while a request's context rows are prepared or taken in. */
  private enum HeapFault {
    DEVICE_STORAGE(DEVICE, false),
    HOST_STORAGE(HOST, true),
    REDUCTION("reduce", false),
    DOWNLOAD("download", true);

    private final String operation;
    private final boolean onHost;

    HeapFault(String operation, boolean onHost) {
      this.operation = operation;
      this.onHost = onHost;
    }

    /** Fails the first such operation. */
    Fault fault() {
      AtomicInteger calls = new AtomicInteger();
      return (called, purpose, bytes) -> {
        if (called.equals(operation) && calls.getAndIncrement() == 0) {
          throw new OutOfMemoryError("a test");
        }
        if (onHost) {
          NO_DEVICE_STORAGE.check(called, purpose, bytes);
        }
      };
    }
  }

  @ParameterizedTest
  @EnumSource
  void heapThatRunsOutFailsItsRequestAlone(HeapFault where) {
    try (ContextRig rig = open(64)) {
      Answer plain = rig.answer(30, greedy().build());
      Answer later = rig.answer(50, both(1));
      List<GenerationHandle> handles = new ArrayList<>();
      try (StepGate gate = new StepGate(rig.model)) {
        handles.add(rig.submit(request(30, greedy().build())));
        handles.add(rig.submit(request(91, both(1))));
        handles.add(rig.submit(request(50, both(1))));
        rig.backend.fault(where.fault());
      }
      Answer.of(handles.get(0).await()).assertSame(plain);
      assertThatThrownBy(handles.get(1)::await)
          .isInstanceOf(RequestOutOfMemoryException.class)
          .hasRootCauseInstanceOf(OutOfMemoryError.class);
      try (GenerationResult result = handles.get(2).await()) {
        Answer.of(result).assertSame(later);
      }
      assertNothingHeld(rig);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"reduce", "download", "linear"})
  void aBrokenBackendTellsEveryCallerAndFreesEveryStorage(String operation) {
    ContextRig rig = open(16);
    Answer finished = rig.answer(40, full());
    rig.backend.fault(NO_DEVICE_STORAGE);
    GenerationResult onHost = rig.run(40, full());
    rig.backend.fault(RiggedBackend.NONE);
    GenerationResult onDevice = rig.run(40, full());
    List<GenerationHandle> handles = new ArrayList<>();
    LogitsView handedOut;
    try (StepGate gate = new StepGate(rig.model)) {
      handles.add(rig.submit(request(4, both(1).toBuilder().maxTokens(100).build())));
      gate.next();
      gate.next();
      handedOut = handles.get(0).stream().iterator().next().contextLogits();
      assertThat(handedOut.rows()).isEqualTo(4);
      handles.add(rig.submit(request(9, both(1))));
      handles.add(rig.submit(request(91, both(1))));
      handles.add(rig.submit(request(30, compact(0))));
      AtomicInteger calls = new AtomicInteger();
      rig.backend.fault(
          (called, purpose, bytes) -> {
            NO_DEVICE_STORAGE.check(called, purpose, bytes);
            if (called.equals(operation) && calls.incrementAndGet() == 3) {
              throw new IllegalStateException("lost device");
            }
          });
    }
    for (GenerationHandle handle : handles) {
      assertThatThrownBy(handle::await)
          .isInstanceOf(EngineFailedException.class)
          .hasMessageContaining("lost device");
    }
    assertThatThrownBy(() -> rig.submit(request(9, full())))
        .isInstanceOf(EngineFailedException.class);
    assertThatThrownBy(() -> handedOut.row(0))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("cancelled or failed");
    rig.close();
    assertThat(rig.backend.deviceUsed()).isZero();
    assertThat(rig.backend.hostUsed()).as("the finished result alone").isEqualTo(fullBytes(40));
    assertThatThrownBy(() -> onDevice.contextLogits().row(0)).hasMessageContaining("closed");
    Answer.of(onHost).assertSame(finished);
    onHost.close();
    onDevice.close();
    assertThat(rig.backend.hostUsed()).isZero();
  }
}
