package dev.halcyon.engine.logits;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Whatever allocation fails, a request ends right or with one typed error, and the next is right.
 */
class AllocationSweepTest {

  private static final int VOCAB = 97;
  private static final int LENGTH = 91;

  /** Storage is more than one allocation. */
  private static final int SEGMENT_ROWS = 60;

  private static final BatchDescription WHOLE = new BatchDescription(false, false, true, false);

  static Stream<Arguments> scenarios() {
    Stream.Builder<Arguments> scenarios = Stream.builder();
    for (LogitsType type : new LogitsType[] {LogitsType.F32, LogitsType.BF16}) {
      for (int chunk : new int[] {LENGTH, 40}) {
        for (boolean full : new boolean[] {false, true}) {
          scenarios.add(Arguments.of(type, chunk, full, 2));
        }
        scenarios.add(Arguments.of(type, chunk, true, Request.NO_LOGPROBS));
      }
    }
    return scenarios.build();
  }

  private static Rig rig(LogitsType type, int segmentRows) {
    Rig rig = Rig.of(type, VOCAB);
    rig.device.reductionAllocates();
    rig.device.memory.maxBufferBytes(4L * segmentRows * VOCAB);
    rig.device.host.maxBufferBytes(4L * segmentRows * VOCAB);
    return rig;
  }

  /**
   * Lets the n-th allocation of a scenario fail for every n that occurs in it.
   *
   * @return how many there were
   */
  private static int sweep(LogitsType type, int chunk, boolean full, int k, boolean whole) {
    return sweep(() -> rig(type, whole ? LENGTH : SEGMENT_ROWS), chunk, full, k, whole);
  }

  private static int sweep(Supplier<Rig> rigs, int chunk, boolean full, int k, boolean whole) {
    int n = 0;
    boolean reached = true;
    while (reached) {
      try (Rig rig = rigs.get()) {
        try (Request request = new Request(rig, rig.prompt(n, LENGTH), chunk)) {
          Account account = rig.device.memory.account;
          int calls = account.requests().size();
          int open = account.open();
          int onHost = rig.device.host.account.open();
          account.failCall(n);
          runOrFailTyped(request, full, k, whole);
          reached = account.requests().size() - calls > n;
          assertThat(account.open()).as("open after failure %d", n).isEqualTo(open);
          assertThat(rig.device.host.account.open())
              .as("host after failure %d", n)
              .isEqualTo(onHost);
          account.recover();
          rig.device.host.account.recover();
        }
        rig.requireServes(50);
      }
      n++;
    }
    return n - 1;
  }

  private static void runOrFailTyped(Request request, boolean full, int k, boolean whole) {
    try {
      request.runAndCheck(full, k, i -> whole ? WHOLE : BatchDescription.PLAIN);
    } catch (OutOfDeviceMemoryException e) {
      assertThat(whole).as("only the whole path may fail for want of device memory").isTrue();
    }
  }

  @ParameterizedTest
  @MethodSource("scenarios")
  void anyDeviceAllocationMayFail(LogitsType type, int chunk, boolean full, int k) {
    int failures = sweep(type, chunk, full, k, false);
    // In full: two segments of storage. Compact: a buffer for the rows, or a reduction's own.
    assertThat(failures).isGreaterThanOrEqualTo(full ? 2 : 1);
  }

  @ParameterizedTest
  @MethodSource("scenarios")
  void anyDeviceAllocationOfAWholeProjectionMayFail(
      LogitsType type, int chunk, boolean full, int k) {
    assertThat(sweep(type, chunk, full, k, true)).isGreaterThanOrEqualTo(1);
  }

  /** The tile and the reduction's own. */
  @ParameterizedTest
  @CsvSource({"91, 0", "91, 4", "40, 4"})
  void anyDeviceAllocationByTilesMayFail(int chunk, int miss) {
    Supplier<Rig> rigs =
        () -> {
          Rig rig = Rig.byTiles(LogitsType.BF16, 500, 2L * 128 * LENGTH, miss);
          rig.device.reductionAllocates();
          return rig;
        };
    assertThat(sweep(rigs, chunk, false, 2, false)).isGreaterThanOrEqualTo(2);
  }

  /** Three requests whose chunks take turns: full logits, compact logprobs, and both. */
  private static final class Mixed implements AutoCloseable {

    private static final int[] LENGTHS = {LENGTH, 70, 45};
    private static final boolean[] FULL = {true, false, true};
    private static final int[] TOP = {Request.NO_LOGPROBS, 2, 3};

    private final Rig rig;
    private final List<Request> requests = new ArrayList<>();

    Mixed(Rig rig, int chunk) {
      this.rig = rig;
      for (int i = 0; i < LENGTHS.length; i++) {
        requests.add(new Request(rig, rig.prompt(i, LENGTHS[i]), chunk));
      }
    }

    /** Returns how many of them failed for want of storage; the others are right. */
    int run() {
      int failed = 0;
      ContextLogits[] targets = new ContextLogits[LENGTHS.length];
      for (int i = 0; i < targets.length; i++) {
        try {
          targets[i] = requests.get(i).open(FULL[i], TOP[i]);
        } catch (OutOfHostMemoryException e) {
          assertThat(FULL[i]).as("%d needs storage", i).isTrue();
          assertThat(e.requestedBytes()).isEqualTo(4L * LENGTHS[i] * VOCAB);
          failed++;
        }
      }
      for (int chunk = 0; chunk < requests.get(0).chunks(); chunk++) {
        // Every other step takes them in the opposite order.
        for (int turn = 0; turn < targets.length; turn++) {
          int i = chunk % 2 == 0 ? turn : targets.length - 1 - turn;
          if (targets[i] != null && chunk < requests.get(i).chunks()) {
            requests.get(i).project(targets[i], chunk, BatchDescription.PLAIN);
          }
        }
      }
      for (int i = 0; i < targets.length; i++) {
        if (targets[i] != null) {
          requests.get(i).check(targets[i], FULL[i], TOP[i]);
        }
      }
      return failed;
    }

    @Override
    public void close() {
      requests.forEach(Request::close);
    }
  }

  @ParameterizedTest
  @CsvSource({"F32, 91", "F32, 40", "BF16, 91", "BF16, 40"})
  void anyDeviceAllocationOfMixedRequestsMayFail(LogitsType type, int chunk) {
    // Three segments of storage, and a buffer or a reduction's own for the compact one.
    assertThat(sweepMixed(type, chunk, false)).isGreaterThanOrEqualTo(4);
  }

  /** On the host there are three segments: 60 and 31 rows of one request, 45 of another. */
  @ParameterizedTest
  @CsvSource({"F32, 91", "F32, 40", "BF16, 91", "BF16, 40"})
  void anyHostAllocationOfMixedRequestsMayFailThatRequestAlone(LogitsType type, int chunk) {
    assertThat(sweepMixed(type, chunk, true)).isEqualTo(3);
  }

  /** Returns the number of allocations that could fail. */
  private static int sweepMixed(LogitsType type, int chunk, boolean ofHost) {
    int n = 0;
    boolean reached = true;
    while (reached) {
      try (Rig rig = rig(type, SEGMENT_ROWS)) {
        try (Mixed mixed = new Mixed(rig, chunk)) {
          if (ofHost) {
            rig.device.memory.account.refuse();
          }
          Account account = ofHost ? rig.device.host.account : rig.device.memory.account;
          int calls = account.requests().size();
          account.failCall(n);
          int failed = mixed.run();
          reached = account.requests().size() - calls > n;
          assertThat(failed).as("with failure %d", n).isEqualTo(ofHost && reached ? 1 : 0);
          rig.device.memory.account.recover();
          rig.device.host.account.recover();
          assertThat(mixed.run()).isZero();
        }
      }
      n++;
    }
    return n - 1;
  }

  @ParameterizedTest
  @MethodSource("scenarios")
  void theDeviceMayHaveNothingWhileTheHostWorks(LogitsType type, int chunk, boolean full, int k) {
    try (Rig rig = rig(type, SEGMENT_ROWS);
        Request request = new Request(rig, rig.prompt(5, LENGTH), chunk)) {
      rig.device.memory.account.refuse();
      request.runAndCheck(full, k);
      rig.device.memory.account.recover();
      request.runAndCheck(full, k);
    }
  }

  @ParameterizedTest
  @MethodSource("scenarios")
  void bothMayFail(LogitsType type, int chunk, boolean full, int k) {
    for (int n = 0; n < 2; n++) {
      try (Rig rig = rig(type, SEGMENT_ROWS);
          Request request = new Request(rig, rig.prompt(6, LENGTH), chunk)) {
        rig.device.memory.account.refuse();
        rig.device.host.account.failCall(n);
        boolean failed = false;
        try {
          request.runAndCheck(full, k);
        } catch (OutOfHostMemoryException e) {
          failed = true;
          assertThat(e.requestedBytes()).isEqualTo(4L * LENGTH * VOCAB);
        }
        assertThat(failed).as("fails exactly if it needs storage").isEqualTo(full);
        assertThat(rig.device.host.account.open()).isZero();
        rig.device.host.account.recover();
        request.runAndCheck(full, k);
        rig.device.memory.account.recover();
        request.runAndCheck(full, k);
      }
    }
  }

  @ParameterizedTest
  @MethodSource("scenarios")
  void aReductionThatHasNoRoomIsRepeatedOnTheHost(LogitsType type, int chunk, boolean full, int k) {
    if (k == Request.NO_LOGPROBS) {
      return;
    }
    try (Rig rig = rig(type, SEGMENT_ROWS);
        Request request = new Request(rig, rig.prompt(7, LENGTH), chunk);
        ContextLogits target = request.open(full, k)) {
      rig.device.memory.account.refuse();
      request.project(target, i -> BatchDescription.PLAIN);
      assertThat(rig.device.counts("reduce")).as("all refused").isEmpty();
      request.check(target, full, k);
    }
  }
}
