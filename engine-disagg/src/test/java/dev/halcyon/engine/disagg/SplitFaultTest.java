package dev.halcyon.engine.disagg;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.halcyon.engine.CloseMode;
import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvSink;
import dev.halcyon.engine.transfer.KvSource;
import dev.halcyon.engine.transfer.KvTransport;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What goes wrong with a split request is its own, on both sides, and leaves nothing behind. */
class SplitFaultTest {

  private static final int[] PROMPT = new Random(7).ints(33, 1, TinyCheckpoint.VOCAB).toArray();
  private static final GenerationRequest REQUEST =
      GenerationRequest.of(
          PROMPT,
          SamplingParams.builder().maxTokens(6).ignoreEos(true).returnContextLogits(true).build());

  @TempDir private Path directory;
  private Path model;
  private final WatchedTransport transport = openTransport();

  /** How keys and values go over. */
  WatchedTransport openTransport() {
    return new WatchedTransport();
  }

  @BeforeEach
  void write() {
    model = TinyCheckpoint.write(directory);
  }

  @Test
  void aPromptThatNobodyFetchesIsGivenUp() {
    try (SplitRig rig = rig(Duration.ofMillis(200))) {
      DisaggParams params = rig.submitContext(REQUEST).await().disaggParams();
      assertThat(rig.prefill.metrics().pinnedPrompts()).isEqualTo(1);
      // No other work comes: the pin ends by the clock alone.
      rig.assertClean();
      KvTransferException late = failure(rig.decode.submit(generation(params)));
      assertThat(late.reason()).isEqualTo(Reason.UNKNOWN);
      requireGood(rig);
    }
  }

  @Test
  void aPromptThatDoesNotComeFailsItsRequest() {
    try (SplitRig rig = rig(Duration.ofMillis(200))) {
      transport.shut();
      GenerationHandle rest = rig.decode.submit(generation(contextOf(rig)));
      SplitRig.await("it receives", () -> rig.decode.metrics().receivingPrompts() == 1);
      KvTransferException late = failure(rest);
      assertThat(late.reason()).isEqualTo(Reason.TIMEOUT);
      rig.assertClean();
      transport.open();
      requireGood(rig);
    }
  }

  @Test
  void aRequestsOwnTimeoutEndsItsWait() {
    try (SplitRig rig = rig(Duration.ofSeconds(20))) {
      transport.shut();
      GenerationRequest request =
          generation(contextOf(rig)).toBuilder().timeout(Duration.ofMillis(150)).build();
      try (GenerationResult result = rig.decode.generate(request)) {
        assertThat(result.outputs().get(0).finishReason()).isEqualTo(FinishReason.TIMEOUT);
        assertThat(result.outputs().get(0).tokenIds()).isEmpty();
        assertThat(result.contextLogits().rows()).isEqualTo(PROMPT.length);
      }
      rig.assertClean();
      assertThat(transport.sourceEnds).containsExactly("CANCELLED");
      transport.open();
      requireGood(rig);
    }
  }

  @Test
  void cancelOnTheGenerationSideReachesTheContextSide() {
    try (SplitRig rig = rig(Duration.ofSeconds(20))) {
      transport.shut();
      GenerationHandle rest = rig.decode.submit(generation(contextOf(rig)));
      SplitRig.await("something is held back", () -> transport.heldBack() > 0);
      rest.cancel();
      try (GenerationResult result = rest.await()) {
        assertThat(result.outputs().get(0).finishReason()).isEqualTo(FinishReason.CANCELLED);
        assertThat(result.contextLogits()).isNull();
      }
      rig.assertClean();
      assertThat(transport.sourceEnds).containsExactly("CANCELLED");
      // What was on its way comes late, when the blocks are another's.
      transport.open();
      requireGood(rig);
    }
  }

  @Test
  void cancelOnTheContextSideReachesTheGenerationSide() {
    try (SplitRig rig = rig(Duration.ofSeconds(20))) {
      transport.shut();
      GenerationHandle context = rig.submitContext(REQUEST);
      GenerationHandle rest = rig.decode.submit(generation(context.await().disaggParams()));
      SplitRig.await("something is held back", () -> transport.heldBack() > 0);
      context.cancel();
      assertThat(failure(rest).reason()).isEqualTo(Reason.CANCELLED);
      rig.assertClean();
      transport.open();
      requireGood(rig);
    }
  }

  @Test
  void cancelBeforeTheFetchFreesThePrompt() {
    try (SplitRig rig = rig(Duration.ofSeconds(20))) {
      GenerationHandle context = rig.submitContext(REQUEST);
      DisaggParams params = context.await().disaggParams();
      context.cancel();
      rig.assertClean();
      assertThat(failure(rig.decode.submit(generation(params))).reason()).isEqualTo(Reason.UNKNOWN);
    }
  }

  @Test
  void aPrefillEngineThatClosesFailsTheRequest() {
    try (SplitRig rig = rig(Duration.ofSeconds(20))) {
      transport.shut();
      GenerationHandle rest = rig.decode.submit(generation(contextOf(rig)));
      SplitRig.await("something is held back", () -> transport.heldBack() > 0);
      rig.prefill.close();
      assertThat(failure(rest).reason()).isEqualTo(Reason.CLOSED);
      transport.open();
      SplitRig.await(
          "every block is free",
          () -> rig.decode.metrics().freeBlocks() == rig.decode.metrics().totalBlocks());
    }
  }

  @Test
  void aDecodeEngineThatClosesFreesThePrompt() {
    try (SplitRig rig = rig(Duration.ofSeconds(20))) {
      transport.shut();
      GenerationHandle rest = rig.decode.submit(generation(contextOf(rig)));
      SplitRig.await("something is held back", () -> transport.heldBack() > 0);
      rig.decode.close();
      assertThatThrownBy(rest::await).hasMessageContaining("closed");
      SplitRig.await("nothing is pinned", () -> rig.prefill.metrics().pinnedPrompts() == 0);
      assertThat(transport.sourceEnds).containsExactly("CLOSED");
      transport.open();
    }
  }

  @Test
  void aTransportThatClosesFailsBothSides() {
    try (SplitRig rig = rig(Duration.ofSeconds(20))) {
      transport.shut();
      GenerationHandle rest = rig.decode.submit(generation(contextOf(rig)));
      SplitRig.await("something is held back", () -> transport.heldBack() > 0);
      transport.close();
      assertThat(failure(rest).reason()).isEqualTo(Reason.CLOSED);
      rig.assertClean();
      assertThat(failure(rig.submitContext(REQUEST)).reason()).isEqualTo(Reason.CLOSED);
      rig.assertClean();
      // Requests that are not split go on.
      assertThat(rig.prefill.generate(REQUEST).outputs().get(0).tokenIds()).hasSize(6);
    }
  }

  @Test
  void aDrainingPrefillEngineWaitsForTheFetch() {
    try (SplitRig rig =
        SplitRig.of(
            model,
            Ends.of(transport),
            b -> b.closeMode(CloseMode.DRAIN).kvTransferTimeout(Duration.ofSeconds(20)))) {
      DisaggParams params = contextOf(rig);
      CompletableFuture<Void> closing = CompletableFuture.runAsync(rig.prefill::close);
      assertThatThrownBy(() -> closing.get(100, TimeUnit.MILLISECONDS))
          .isInstanceOf(TimeoutException.class);
      GenerationRequest plain =
          GenerationRequest.of(
                  PROMPT, SamplingParams.builder().maxTokens(6).ignoreEos(true).build())
              .toBuilder()
              .disaggParams(params)
              .build();
      assertThat(rig.decode.generate(plain).outputs().get(0).tokenIds()).hasSize(6);
      closing.join();
    }
  }

  @Test
  void anotherPromptIsRefusedAndTheRightOneServed() {
    try (SplitRig rig = rig(Duration.ofSeconds(20))) {
      Outcome expected = rig.whole(REQUEST);
      DisaggParams params = contextOf(rig);
      int[] other = PROMPT.clone();
      other[3] ^= 1;
      GenerationRequest wrong =
          GenerationRequest.of(other, SamplingParams.builder().maxTokens(6).build()).toBuilder()
              .disaggParams(params)
              .build();
      KvTransferException refused = failure(rig.decode.submit(wrong));
      assertThat(refused.reason()).isEqualTo(Reason.REFUSED);
      assertThat(refused).hasMessageStartingWith("prompt differs");
      Outcome.of(rig.decode.submit(generation(params))).assertSame(expected);
      rig.assertClean();
    }
  }

  @Test
  void anotherModelIsRefusedByName() {
    Path other = TinyCheckpoint.fixture("models/llama2");
    try (SplitRig rig = rig(Duration.ofSeconds(20));
        SplitRig foreign = SplitRig.of(other, Ends.of(transport), UnaryOperator.identity())) {
      int[] prompt = {5, 6, 7};
      SamplingParams params = SamplingParams.builder().maxTokens(4).detokenize(false).build();
      GenerationHandle context = rig.submitContext(GenerationRequest.of(prompt, params));
      DisaggParams first = context.await().disaggParams();
      DisaggParams fitting =
          DisaggParams.builder(first.requestType(), "r")
              .firstGenTokens(List.of(1))
              .kvDescriptor(first.kvDescriptor())
              .build();
      KvTransferException refused =
          failure(
              foreign.decode.submit(
                  GenerationRequest.of(prompt, params).toBuilder().disaggParams(fitting).build()));
      assertThat(refused.reason()).isEqualTo(Reason.REFUSED);
      assertThat(refused).hasMessageStartingWith("model differs");
      context.cancel();
      rig.assertClean();
      foreign.assertClean();
    }
  }

  @Test
  void aForeignDescriptorIsRefused() {
    try (SplitRig rig = rig(Duration.ofSeconds(20))) {
      DisaggParams params =
          DisaggParams.builder(contextOf(rig).requestType(), "r")
              .firstGenTokens(List.of(1))
              .kvDescriptor(new KvDescriptor(new byte[] {1, 2, 3}))
              .build();
      GenerationRequest request =
          GenerationRequest.of(PROMPT, SamplingParams.builder().build()).toBuilder()
              .disaggParams(params)
              .build();
      assertThat(failure(rig.decode.submit(request)).reason()).isEqualTo(Reason.REFUSED);
    }
  }

  @Test
  void aTransportThatThrowsFailsItsRequestsAlone() {
    KvTransport broken =
        new KvTransport() {
          @Override
          public KvOffer offer(KvSource source) {
            throw new IllegalStateException("broken");
          }

          @Override
          public KvFetch fetch(KvDescriptor descriptor, KvSink sink) {
            throw new IllegalStateException("broken");
          }

          @Override
          public void close() {}
        };
    try (SplitRig rig = rig(Duration.ofSeconds(20));
        SplitRig bad = SplitRig.of(model, Ends.of(broken), UnaryOperator.identity())) {
      assertThat(failure(bad.submitContext(REQUEST))).hasMessageContaining("broken");
      GenerationRequest rest = generation(contextOf(rig));
      assertThat(failure(bad.decode.submit(rest))).hasMessageContaining("broken");
      bad.assertClean();
      assertThat(bad.prefill.generate(REQUEST).outputs().get(0).tokenIds()).hasSize(6);
    }
  }

  private SplitRig rig(Duration timeout) {
    return SplitRig.of(model, Ends.of(transport), b -> b.kvTransferTimeout(timeout));
  }

  private static DisaggParams contextOf(SplitRig rig) {
    return rig.submitContext(REQUEST).await().disaggParams();
  }

  private static GenerationRequest generation(DisaggParams params) {
    return REQUEST.toBuilder().disaggParams(params).build();
  }

  private static KvTransferException failure(GenerationHandle handle) {
    return catchThrowableOfType(KvTransferException.class, handle::await);
  }

  private static void requireGood(SplitRig rig) {
    rig.assertSame(REQUEST);
    rig.assertClean();
  }
}
