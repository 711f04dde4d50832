package dev.halcyon.engine.disagg;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.halcyon.engine.CapacityPolicy;
import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.DisaggRequestType;
import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.RequestOutOfMemoryException;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.disagg.transfer.NeedsUcx;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Split requests whose keys and values leave while the prompt is computed, in chunks of 7. */
@Timeout(60)
class OverlapTest {

  private static final Duration STANDS_AT_MOST = Duration.ofSeconds(20);

  private static final int[] PROMPT = new Random(7).ints(40, 1, TinyCheckpoint.VOCAB).toArray();
  private static final GenerationRequest REQUEST =
      GenerationRequest.of(
          PROMPT,
          SamplingParams.builder().maxTokens(6).ignoreEos(true).returnContextLogits(true).build());

  @TempDir private Path directory;
  private Path model;

  /** Opened when the computing engine may go on behind the chunk that it stopped at. */
  private final CountDownLatch gate = new CountDownLatch(1);

  @BeforeEach
  void write() {
    model = TinyCheckpoint.write(directory);
  }

  @Test
  void withinAProcess() {
    requireSame(Ends.inProcess());
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 2})
  void overTcp(int workers) {
    requireSame(Ends.tcp(workers));
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 2})
  @ExtendWith(NeedsUcx.class)
  void overUcx(int workers) {
    requireSame(Ends.ucx(workers));
  }

  /** The same values as one engine's, whatever is asked for, cached or not on either side. */
  private void requireSame(Ends ends) {
    try (SplitRig rig = SplitRig.of(model, ends, chunks(Duration.ofSeconds(20)))) {
      for (SamplingParams params : SplitEqualityTest.everything()) {
        GenerationRequest request = GenerationRequest.of(PROMPT, params);
        Outcome expected = rig.whole(request);
        rig.overlapped(request).assertSame(expected);
        rig.overlapped(request).assertSame(expected);
        GenerationRequest one = with(request, params.toBuilder().maxTokens(1));
        rig.overlapped(one).assertSame(rig.whole(one));
        GenerationRequest plain =
            with(
                request,
                params.toBuilder().returnContextLogits(false).promptLogprobs(null).maxTokens(9));
        rig.whole(plain);
        rig.overlapped(plain);
        rig.overlapped(plain).assertSame(rig.whole(plain));
      }
      rig.assertClean();
    }
  }

  private static GenerationRequest with(GenerationRequest request, SamplingParams.Builder params) {
    return request.toBuilder().params(params.build()).build();
  }

  @Test
  void piecesAreWrittenBeforeTheLastChunkIsComputedWithinAProcess() {
    requireOverlap(Ends.inProcess());
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 2})
  void piecesAreWrittenBeforeTheLastChunkIsComputedOverTcp(int workers) {
    requireOverlap(Ends.tcp(workers));
  }

  private void requireOverlap(Ends ends) {
    FollowedTransport followed = new FollowedTransport(ends);
    followed.onComputed =
        computed -> {
          if (computed == 14) {
            Waiting.atMost(STANDS_AT_MOST, followed::hasWritten);
          }
        };
    try (SplitRig rig = rig(followed, Duration.ofSeconds(20))) {
      requireOverlap(rig, followed);
    }
  }

  @Test
  void withinAProcessItIsCopiedWhenAllOfItIsThere() {
    FollowedTransport followed = new FollowedTransport(Ends.inProcess(), true);
    followed.onComputed =
        computed -> {
          if (computed == 14) {
            Waiting.atMost(STANDS_AT_MOST, () -> followed.events.contains("progress"));
          }
        };
    try (SplitRig rig = rig(followed, Duration.ofSeconds(20))) {
      rig.overlapped(REQUEST).assertSame(rig.whole(REQUEST));
      rig.assertClean();
    }
    assertThat(followed.hasWritten()).as("pieces").isFalse();
    assertThat(followed.events).containsSubsequence("progress", "computed 40", "copied");
  }

  private static void requireOverlap(SplitRig rig, FollowedTransport followed) {
    rig.overlapped(REQUEST).assertSame(rig.whole(REQUEST));
    rig.assertClean();
    List<String> written =
        followed.events.stream().filter(event -> event.startsWith("written")).toList();
    assertThat(followed.events.indexOf(written.get(0)))
        .as(() -> followed.events.toString())
        .isLessThan(followed.events.indexOf("computed 40"));
    // In any order: more than one thread reads, and writes.
    assertThat(written).contains("written 40");
  }

  @Test
  void aLayerIsWrittenBeforeTheNextIsComputedWithinAProcess() {
    requireOverlapOfLayers(Ends.inProcess());
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 2})
  void aLayerIsWrittenBeforeTheNextIsComputedOverTcp(int workers) {
    requireOverlapOfLayers(Ends.tcp(workers));
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 2})
  @ExtendWith(NeedsUcx.class)
  void aLayerIsWrittenBeforeTheNextIsComputedOverUcx(int workers) {
    requireOverlapOfLayers(Ends.ucx(workers));
  }

  /** A prompt of one chunk: the engine goes on with its last layer once the first is over there. */
  private void requireOverlapOfLayers(Ends ends) {
    FollowedTransport followed = new FollowedTransport(ends);
    followed.onLayer = computed -> Waiting.atMost(STANDS_AT_MOST, followed::hasWritten);
    try (SplitRig rig =
        SplitRig.of(model, followed.ends(), b -> b.kvTransferTimeout(Duration.ofSeconds(20)))) {
      requireOverlap(rig, followed);
      assertThat(followed.events.stream().filter(event -> event.startsWith("computed")))
          .containsExactly("computed 40");
    }
  }

  @Test
  void aFirstTokenThatEndsTheRequest() {
    try (SplitRig rig = rig(Ends.inProcess())) {
      int first = rig.whole(REQUEST).outputs().get(0).ids().get(0);
      GenerationRequest request =
          with(REQUEST, REQUEST.params().toBuilder().stopTokenIds(Set.of(first)));
      Outcome expected = rig.whole(request);
      Outcome split = rig.overlapped(request);
      assertThat(split.outputs().get(0).finishReason()).isEqualTo(FinishReason.STOP);
      split.assertSame(expected);
      rig.assertClean();
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aSlowPrefillIsWaitedForAsLongAsItComputes(boolean direct) {
    FollowedTransport followed = new FollowedTransport(Ends.inProcess(), direct);
    try (SplitRig rig = rig(followed, Duration.ofMillis(400))) {
      // The decode engine has all that it can have of the prompt: no piece comes until the last.
      GenerationRequest plain =
          with(REQUEST, REQUEST.params().toBuilder().returnContextLogits(false));
      rig.decode.generate(plain);
      Outcome expected = rig.whole(REQUEST);
      followed.onComputed = computed -> Waiting.pause(Duration.ofMillis(150));
      long start = System.nanoTime();
      rig.overlapped(REQUEST).assertSame(expected);
      // Six chunks.
      assertThat(System.nanoTime() - start).isGreaterThan(800_000_000L);
      rig.assertClean();
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aPrefillThatDoesNotGoOnTimesOut(boolean direct) {
    FollowedTransport followed = stopping(direct);
    try (SplitRig rig = rig(followed, Duration.ofMillis(300))) {
      GenerationHandle context = rig.submitOffering(REQUEST);
      GenerationHandle rest = rig.decode.submit(SplitRig.following(REQUEST, context));
      assertThat(failure(rest).reason()).isEqualTo(Reason.TIMEOUT);
      gate.countDown();
      assertThat(failure(context).reason()).isEqualTo(Reason.TIMEOUT);
      requireGood(rig, followed);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void cancelWhereItIsComputed(boolean direct) {
    FollowedTransport followed = stopping(direct);
    try (SplitRig rig = rig(followed, Duration.ofSeconds(20))) {
      GenerationHandle context = rig.submitOffering(REQUEST);
      GenerationHandle rest = rig.decode.submit(SplitRig.following(REQUEST, context));
      SplitRig.await("it receives", () -> rig.decode.metrics().receivingPrompts() == 1);
      context.cancel();
      gate.countDown();
      assertThat(failure(rest).reason()).isEqualTo(Reason.CANCELLED);
      GenerationResult ended = context.await();
      assertThat(ended.outputs().get(0).finishReason()).isEqualTo(FinishReason.CANCELLED);
      assertThat(ended.disaggParams()).isNull();
      requireGood(rig, followed);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void cancelWhereItIsContinued(boolean direct) {
    FollowedTransport followed = stopping(direct);
    try (SplitRig rig = rig(followed, Duration.ofSeconds(20))) {
      GenerationHandle context = rig.submitOffering(REQUEST);
      GenerationHandle rest = rig.decode.submit(SplitRig.following(REQUEST, context));
      SplitRig.await("it receives", () -> rig.decode.metrics().receivingPrompts() == 1);
      rest.cancel();
      assertThat(rest.await().outputs().get(0).finishReason()).isEqualTo(FinishReason.CANCELLED);
      gate.countDown();
      assertThat(failure(context).reason()).isEqualTo(Reason.CANCELLED);
      requireGood(rig, followed);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void cancelBeforeAnybodyFetches(boolean direct) {
    FollowedTransport followed = stopping(direct);
    try (SplitRig rig = rig(followed, Duration.ofSeconds(20))) {
      GenerationHandle context = rig.submitOffering(REQUEST);
      GenerationRequest rest = SplitRig.following(REQUEST, context);
      context.cancel();
      gate.countDown();
      context.await();
      KvTransferException late = failure(rig.decode.submit(rest));
      assertThat(late.reason()).isIn(Reason.UNKNOWN, Reason.CANCELLED);
      requireGood(rig, followed);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void anEngineThatClosesWhileItComputes(boolean direct) {
    FollowedTransport followed = stopping(direct);
    try (SplitRig rig = rig(followed, Duration.ofSeconds(20))) {
      GenerationHandle context = rig.submitOffering(REQUEST);
      GenerationHandle rest = rig.decode.submit(SplitRig.following(REQUEST, context));
      CompletableFuture<Void> closing = CompletableFuture.runAsync(rig.prefill::close);
      Waiting.pause(Duration.ofMillis(50));
      gate.countDown();
      closing.join();
      assertThatThrownBy(rest::await).hasMessageContaining("closed");
      SplitRig.await(
          "every block is free",
          () -> rig.decode.metrics().freeBlocks() == rig.decode.metrics().totalBlocks());
      assertThat(rig.decode.generate(REQUEST).outputs().get(0).tokenIds()).hasSize(6);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void anEngineThatClosesWhileItReceives(boolean direct) {
    FollowedTransport followed = stopping(direct);
    try (SplitRig rig = rig(followed, Duration.ofSeconds(20))) {
      GenerationHandle context = rig.submitOffering(REQUEST);
      GenerationHandle rest = rig.decode.submit(SplitRig.following(REQUEST, context));
      SplitRig.await("it receives", () -> rig.decode.metrics().receivingPrompts() == 1);
      rig.decode.close();
      assertThatThrownBy(rest::await).hasMessageContaining("closed");
      gate.countDown();
      assertThat(failure(context).reason()).isEqualTo(Reason.CLOSED);
      SplitRig.await(
          "every block is free",
          () -> rig.prefill.metrics().freeBlocks() == rig.prefill.metrics().totalBlocks());
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 2})
  void aTransportThatIsGoneFailsBothSides(int workers) {
    FollowedTransport followed = stopping(new FollowedTransport(Ends.tcp(workers)), 14);
    try (SplitRig rig = rig(followed, Duration.ofSeconds(20))) {
      GenerationHandle context = rig.submitOffering(REQUEST);
      GenerationHandle rest = rig.decode.submit(SplitRig.following(REQUEST, context));
      SplitRig.await("it hears how far that is", () -> followed.events.contains("progress"));
      followed.close();
      assertThat(failure(rest).reason()).isIn(Reason.CLOSED, Reason.PEER_LOST);
      gate.countDown();
      assertThat(failure(context).reason()).isIn(Reason.CLOSED, Reason.PEER_LOST);
      rig.assertClean();
      assertThat(rig.prefill.generate(REQUEST).outputs().get(0).tokenIds()).hasSize(6);
    }
  }

  @Test
  void firstTokensThatDoNotCome() {
    try (SplitRig rig = SplitRig.of(model, Ends.tcp(), chunks(Duration.ofMillis(300)))) {
      assertThat(supplied(rig, CompletableFuture::new).reason()).isEqualTo(Reason.TIMEOUT);
      assertThat(supplied(rig, () -> CompletableFuture.completedFuture(null)).reason())
          .isEqualTo(Reason.CANCELLED);
      assertThat(
              supplied(
                      rig,
                      () -> CompletableFuture.failedFuture(new IllegalStateException("elsewhere")))
                  .getMessage())
          .contains("elsewhere");
      GenerationHandle rest =
          rig.decode.submit(
              REQUEST.toBuilder()
                  .disaggParams(rig.submitOffering(REQUEST).offer().join())
                  .firstTokens(
                      CompletableFuture.failedFuture(
                          new RequestOutOfMemoryException("there", null)))
                  .build());
      assertThatThrownBy(rest::await).isInstanceOf(RequestOutOfMemoryException.class);
      rig.assertClean();
      rig.overlapped(REQUEST).assertSame(rig.whole(REQUEST));
      rig.assertClean();
    }
  }

  private static KvTransferException supplied(
      SplitRig rig, Supplier<CompletableFuture<DisaggParams>> tokens) {
    DisaggParams offer = rig.submitOffering(REQUEST).offer().join();
    return failure(
        rig.decode.submit(
            REQUEST.toBuilder().disaggParams(offer).firstTokens(tokens.get()).build()));
  }

  @Test
  void firstTokensOfAnotherRequestAreRefused() {
    try (SplitRig rig = rig(Ends.inProcess())) {
      GenerationHandle one = rig.submitOffering(REQUEST);
      GenerationHandle other = rig.submitOffering(REQUEST);
      GenerationRequest crossed =
          SplitRig.following(REQUEST, one).toBuilder()
              .firstTokens(other.result().thenApply(GenerationResult::disaggParams))
              .build();
      assertThatThrownBy(() -> rig.decode.submit(crossed).await())
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageStartingWith("requestId");
      other.result().join();
      other.cancel();
      one.cancel(); // stays on offer where the other's tokens came before the request's turn
      rig.assertClean();
    }
  }

  @Test
  void anOfferAndItsTokensBelongTogether() {
    try (SplitRig rig = rig(Ends.inProcess())) {
      GenerationHandle context = rig.submitOffering(REQUEST);
      GenerationRequest right = SplitRig.following(REQUEST, context);
      assertThatThrownBy(() -> rig.decode.submit(right.toBuilder().firstTokens(null).build()))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageStartingWith("firstTokens is missing");
      assertThatThrownBy(() -> rig.decode.submit(right.toBuilder().disaggParams(null).build()))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageStartingWith("firstTokens are for");
      assertThatThrownBy(
              () ->
                  DisaggParams.builder(DisaggRequestType.GENERATION_ONLY, "r")
                      .kvDescriptor(right.disaggParams().kvDescriptor())
                      .build())
          .hasMessageStartingWith("firstGenTokens");
      // All of it at once is as good.
      DisaggParams all = context.await().disaggParams();
      assertThat(all.scheduleStyle()).isEqualTo(ScheduleStyle.GENERATION_FIRST);
      Outcome.of(rig.decode.submit(REQUEST.toBuilder().disaggParams(all).build()))
          .assertSame(rig.whole(REQUEST));
      rig.assertClean();
    }
  }

  @Test
  void requestsThatAreNotOfferedSaySo() {
    try (SplitRig rig = rig(Ends.inProcess())) {
      GenerationHandle plain = rig.prefill.submit(REQUEST);
      plain.await();
      assertThatThrownBy(() -> plain.offer().get(10, TimeUnit.SECONDS))
          .hasCauseInstanceOf(KvTransferException.class);
    }
  }

  @Test
  void aPromptThatIsPausedWhileItIsFetched() {
    // 9 blocks of 8 tokens. Each step generates a token of the other request, which grows to 48
    // tokens, and computes one of the prompt's 40: it is paused when both have 72, and waits.
    UnaryOperator<EngineBuilder> little =
        b ->
            b.capacityPolicy(CapacityPolicy.MAX_UTILIZATION)
                .kvBlockSize(8)
                .kvCacheTokens(72)
                .maxBatchSize(2)
                .maxBatchTokens(2)
                .prefixReuse(false);
    FollowedTransport followed = stopping(new FollowedTransport(Ends.tcp()), 2);
    try (SplitRig rig =
        SplitRig.of(TestBackend.CPU, model, followed.ends(), b -> b, little, b -> b)) {
      int[] prompt = new Random(3).ints(8, 1, TinyCheckpoint.VOCAB).toArray();
      GenerationRequest growing =
          GenerationRequest.of(
              prompt, SamplingParams.builder().maxTokens(40).ignoreEos(true).build());
      // Holds the engine until both are there.
      GenerationHandle first =
          rig.submitOffering(GenerationRequest.of(new int[] {5, 6}, REQUEST.params()));
      first.offer().join();
      GenerationHandle other = rig.prefill.submit(growing);
      GenerationHandle context = rig.submitOffering(REQUEST);
      gate.countDown();
      first.await();
      first.cancel();
      Outcome split = Outcome.of(rig.decode.submit(SplitRig.following(REQUEST, context)));
      split.assertSame(rig.whole(REQUEST));
      Outcome.of(other).assertSame(rig.whole(growing));
      assertThat(rig.prefill.metrics().pauses()).as("pauses").isPositive();
      assertThat(followed.hasWritten()).isTrue();
      rig.assertClean();
    }
  }

  private static UnaryOperator<EngineBuilder> chunks(Duration timeout) {
    return b -> b.maxBatchTokens(7).kvTransferTimeout(timeout);
  }

  private SplitRig rig(Ends ends) {
    return SplitRig.of(model, ends, chunks(Duration.ofSeconds(20)));
  }

  private SplitRig rig(FollowedTransport transport, Duration timeout) {
    return SplitRig.of(model, transport.ends(), chunks(timeout));
  }

  /** One whose computing engine stops behind the second chunk until the gate is opened. */
  private FollowedTransport stopping(boolean direct) {
    return stopping(new FollowedTransport(Ends.inProcess(), direct), 14);
  }

  private FollowedTransport stopping(FollowedTransport followed, int tokens) {
    followed.onComputed =
        computed -> {
          if (computed == tokens) {
            try {
              gate.await(20, TimeUnit.SECONDS);
            } catch (InterruptedException e) {
              throw new AssertionError(e);
            }
          }
        };
    return followed;
  }

  private static KvTransferException failure(GenerationHandle handle) {
    return catchThrowableOfType(KvTransferException.class, handle::await);
  }

  /** Nothing is left, and the next request is right. */
  private static void requireGood(SplitRig rig, FollowedTransport followed) {
    rig.assertClean();
    followed.onComputed = computed -> {};
    rig.overlapped(REQUEST).assertSame(rig.whole(REQUEST));
    rig.assertClean();
  }
}
