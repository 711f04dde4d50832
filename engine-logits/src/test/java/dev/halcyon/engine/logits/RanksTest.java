package dev.halcyon.engine.logits;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.halcyon.engine.logits.HeadDescription.Sharding;
import dev.halcyon.engine.logits.HeadDescription.Weights;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Ranks go through a plan together: the same steps on all of them, whatever one of them lacks. */
@Timeout(60)
class RanksTest {

  private static final int VOCAB = 96;
  private static final int LENGTH = 91;
  private static final BatchDescription WHOLE = new BatchDescription(false, false, true, false);

  private final ExecutorService threads = Executors.newCachedThreadPool();

  @AfterEach
  void stop() {
    threads.shutdownNow();
  }

  @FunctionalInterface
  private interface RankHead {
    FakeHead of(FakeDevice device, int rank);
  }

  @FunctionalInterface
  private interface RankAction<T> {
    T run(Rig rig) throws Exception;
  }

  private static List<Rig> rigs(int ranks, RankHead head) {
    ThreadRanks group = new ThreadRanks(ranks);
    List<Rig> rigs = new ArrayList<>();
    for (int rank = 0; rank < ranks; rank++) {
      FakeDevice device = new FakeDevice();
      device.reductionAllocates();
      rigs.add(Rig.on(device, head.of(device, rank), group.of(rank, device)));
    }
    return rigs;
  }

  private static List<Rig> rigs(int ranks, LogitsType type) {
    return rigs(ranks, (device, rank) -> FakeHead.shard(device, type, VOCAB, ranks, rank));
  }

  /** Does the same on each rank, in a thread of its own. */
  private <T> List<T> onAll(List<Rig> rigs, RankAction<T> action) throws Exception {
    List<Future<T>> running = new ArrayList<>();
    for (Rig rig : rigs) {
      running.add(threads.submit(() -> action.run(rig)));
    }
    List<T> results = new ArrayList<>();
    for (Future<T> each : running) {
      results.add(each.get(20, TimeUnit.SECONDS));
    }
    return results;
  }

  private static Void serve(Rig rig, int chunk, boolean full, int k, BatchDescription batch) {
    try (Request request = new Request(rig, rig.prompt(chunk, LENGTH), chunk)) {
      request.runAndCheck(full, k, i -> batch);
    }
    return null;
  }

  static Stream<Arguments> groups() {
    Stream.Builder<Arguments> groups = Stream.builder();
    for (LogitsType type : new LogitsType[] {LogitsType.F32, LogitsType.BF16}) {
      for (int ranks : new int[] {2, 4}) {
        groups.add(Arguments.of(type, ranks));
      }
    }
    return groups.build();
  }

  @ParameterizedTest
  @MethodSource("groups")
  void shardsAreJoinedToWholeRows(LogitsType type, int ranks) throws Exception {
    List<Rig> rigs = rigs(ranks, type);
    for (int chunk : new int[] {1, 7, 32, 33, 64, LENGTH}) {
      onAll(rigs, rig -> serve(rig, chunk, true, 5, BatchDescription.PLAIN));
      onAll(rigs, rig -> serve(rig, chunk, false, 1, BatchDescription.PLAIN));
      onAll(rigs, rig -> serve(rig, chunk, true, Request.NO_LOGPROBS, WHOLE));
    }
    rigs.forEach(Rig::close);
  }

  @ParameterizedTest
  @MethodSource("groups")
  void anyAllocationOfAnyRankMayFail(LogitsType type, int ranks) throws Exception {
    for (int failing : new int[] {0, ranks - 1}) {
      for (BatchDescription batch : new BatchDescription[] {BatchDescription.PLAIN, WHOLE}) {
        boolean reached = true;
        for (int n = 0; reached; n++) {
          List<Rig> rigs = rigs(ranks, type);
          reached = sweepOne(rigs, failing, n, batch);
          onAll(rigs, rig -> serve(rig, 40, true, 2, BatchDescription.PLAIN));
          rigs.forEach(Rig::close);
        }
      }
    }
  }

  /** Whether the rank had an n-th allocation to fail. */
  private boolean sweepOne(List<Rig> rigs, int failing, int n, BatchDescription batch)
      throws Exception {
    Account account = rigs.get(failing).device.memory.account;
    int[] calls = new int[1];
    List<Throwable> ends =
        onAll(
            rigs,
            rig -> {
              try (Request request = new Request(rig, rig.prompt(n, LENGTH), LENGTH)) {
                if (rig.ranks.rank() == failing) {
                  calls[0] = account.requests().size();
                  account.failCall(n);
                }
                return catchThrowable(() -> request.runAndCheck(true, 2, i -> batch));
              }
            });
    boolean reached = account.requests().size() - calls[0] > n;
    account.recover();
    if (ends.get(0) == null) {
      assertThat(ends).as("failure %d: all ranks end alike", n).containsOnlyNulls();
    } else {
      assertThat(batch).as("failure %d: %s", n, ends.get(0)).isSameAs(WHOLE);
      assertThat(ends).hasOnlyElementsOfType(OutOfDeviceMemoryException.class);
    }
    return reached;
  }

  @ParameterizedTest
  @MethodSource("groups")
  void allRanksProjectWhatTheOneWithTheLeastRoomCan(LogitsType type, int ranks) throws Exception {
    for (int failing : new int[] {0, ranks - 1}) {
      List<Rig> rigs = rigs(ranks, type);
      onAll(
          rigs,
          rig -> {
            try (Request request = new Request(rig, rig.prompt(1, LENGTH), LENGTH);
                ContextLogits target = request.open(false, Request.NO_LOGPROBS)) {
              if (rig.ranks.rank() == failing) {
                long row = (VOCAB / ranks + 2L * VOCAB) * type.bytes();
                rig.device.memory.account.leaveRoom(46 * row);
              }
              request.project(target, i -> BatchDescription.PLAIN);
              request.check(target, false, Request.NO_LOGPROBS);
              rig.device.memory.account.recover();
              return null;
            }
          });
      for (Rig rig : rigs) {
        assertThat(rig.device.counts("project")).containsExactly(46, 45);
        rig.close();
      }
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 4})
  void rowsForTheHostOfRankZeroGoThroughTheResidentRowsOfAll(int ranks) throws Exception {
    List<Rig> rigs = rigs(ranks, LogitsType.BF16);
    onAll(
        rigs,
        rig -> {
          try (Request request = new Request(rig, rig.prompt(2, LENGTH), LENGTH)) {
            if (rig.ranks.rank() == 0) {
              rig.device.memory.account.failCall(0);
            }
            request.runAndCheck(true, 2);
            return null;
          }
        });
    for (Rig rig : rigs) {
      assertThat(rig.device.counts("project")).containsExactly(32, 32, 27);
      rig.close();
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 4})
  void allRanksAreToldThatRankZeroHasNoStorage(int ranks) throws Exception {
    List<Rig> rigs = rigs(ranks, LogitsType.BF16);
    rigs.get(0).device.memory.account.refuse();
    rigs.get(0).device.host.account.refuse();
    List<Throwable> ends =
        onAll(rigs, rig -> catchThrowable(() -> rig.plan.open("request 7", LENGTH, true, null)));
    assertThat(ends)
        .hasSize(ranks)
        .allSatisfy(
            end -> {
              assertThat(end).isInstanceOf(OutOfHostMemoryException.class);
              assertThat(((OutOfHostMemoryException) end).requestedBytes())
                  .isEqualTo(4L * LENGTH * VOCAB);
            });
    rigs.get(0).device.memory.account.recover();
    rigs.get(0).device.host.account.recover();
    onAll(rigs, rig -> serve(rig, 40, true, 2, BatchDescription.PLAIN));
    rigs.forEach(Rig::close);
  }

  /** Not even an error of another kind leaves the other ranks waiting. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void allRanksAreToldOfAnyErrorOfOne(boolean whole) throws Exception {
    List<Rig> rigs = rigs(2, LogitsType.BF16);
    BatchDescription batch = whole ? WHOLE : BatchDescription.PLAIN;
    List<Throwable> ends =
        onAll(
            rigs,
            rig -> {
              try (Request request = new Request(rig, rig.prompt(4, LENGTH), LENGTH)) {
                if (rig.ranks.rank() == 0) {
                  rig.device.memory.account.breakCall(whole ? 1 : 0);
                }
                return catchThrowable(() -> request.runAndCheck(true, 1, i -> batch));
              }
            });
    assertThat(ends.get(0)).isInstanceOf(OutOfMemoryError.class);
    assertThat(ends.get(1))
        .isInstanceOf(whole ? OutOfDeviceMemoryException.class : OutOfHostMemoryException.class);
    onAll(rigs, rig -> serve(rig, 40, true, 2, BatchDescription.PLAIN));
    rigs.forEach(Rig::close);
  }

  /** On every rank 91 rows go through what was reserved, time and again, and nothing else. */
  @ParameterizedTest
  @MethodSource("groups")
  void withoutRoomTheResidentBuffersOfAllDo(LogitsType type, int ranks) throws Exception {
    List<Rig> rigs = rigs(ranks, type);
    onAll(
        rigs,
        rig -> {
          long reserved = rig.device.memory.used();
          try (Request request = new Request(rig, rig.prompt(6, LENGTH), LENGTH)) {
            long used = rig.device.memory.used();
            rig.device.memory.account.refuse();
            for (int round = 0; round < 2; round++) {
              request.runAndCheck(true, 2);
              request.runAndCheck(false, 2);
              assertThat(rig.device.memory.used()).isEqualTo(used);
            }
          }
          assertThat(rig.device.memory.used()).isEqualTo(reserved);
          assertThat(rig.device.counts("project"))
              .containsExactly(32, 32, 27, 32, 32, 27, 32, 32, 27, 32, 32, 27);
          return null;
        });
    rigs.forEach(Rig::close);
  }

  @Test
  void warmUpIsDoneTogether() throws Exception {
    List<Rig> rigs = rigs(2, LogitsType.BF16);
    onAll(
        rigs,
        rig -> {
          try (DeviceBuffer hidden =
              rig.prompt(3, 32).upload(rig.device, LogitsType.BF16, 0, 32, 0, 0)) {
            rig.plan.warmUp(hidden, 32);
            rig.device.complete();
            return null;
          }
        });
    onAll(rigs, rig -> serve(rig, 40, true, 2, BatchDescription.PLAIN));
    rigs.forEach(Rig::close);
  }

  /** Heads that make whole rows on each rank by themselves leave nothing to gather. */
  @ParameterizedTest
  @EnumSource(
      value = Sharding.class,
      names = {"NONE", "ROW"})
  void headsThatPutOutWholeRowsAreNotGathered(Sharding sharding) throws Exception {
    HeadDescription description =
        new HeadDescription(Weights.F32, sharding, Collections.nCopies(2, 48), true, false, false);
    List<Rig> rigs =
        rigs(
            2,
            (device, rank) -> FakeHead.whole(device, LogitsType.F32, VOCAB).described(description));
    onAll(rigs, rig -> serve(rig, 40, true, 2, BatchDescription.PLAIN));
    onAll(rigs, rig -> serve(rig, LENGTH, false, 2, BatchDescription.PLAIN));
    rigs.forEach(Rig::close);
  }
}
