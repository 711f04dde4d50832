package dev.halcyon.engine.disagg.transfer;

import static dev.halcyon.engine.disagg.Waiting.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvLayout;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvTransport;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** What every transport does. */
abstract class KvTransportContract {

  /** How long transports may take to clean up. */
  static final Duration SOON = Duration.ofSeconds(5);

  KvTransport context;
  KvTransport generation;

  /** Opens {@link #context} and {@link #generation}; they may be the same. */
  abstract void openTransports();

  /** How many transfers both still know of. */
  abstract int openTransfers();

  @BeforeEach
  void open() {
    openTransports();
  }

  @AfterEach
  void close() {
    generation.close();
    context.close();
    assertThat(openTransfers()).isZero();
  }

  @ParameterizedTest
  @CsvSource({"1,0", "7,0", "7,6", "1000,0", "1000,999", "1000,512"})
  void everyByteArrivesAtItsPlaceOnce(int tokens, int firstToken) throws Exception {
    FakeSource source = new FakeSource(tokens);
    FakeSink sink = new FakeSink(tokens, firstToken);
    generation.fetch(context.offer(source).descriptor(), sink);
    assertThat(soon(sink.ended())).isNull();
    assertThat(soon(source.ended())).isEqualTo("done");
    sink.requireComplete();
    assertNothingOpen();
  }

  /** A token's keys and values have 128 KiB here, so that many pieces are needed. */
  @Test
  void largePromptsComeInPieces() throws Exception {
    KvLayout large = new KvLayout("model-a", "F32", 4, 4, 16, 1024, 1);
    FakeSource source = new FakeSource(large, 70);
    FakeSink sink = new FakeSink(large, 70, 3);
    generation.fetch(context.offer(source).descriptor(), sink);
    assertThat(soon(sink.ended())).isNull();
    assertThat(soon(source.ended())).isEqualTo("done");
    sink.requireComplete();
    // 67 tokens of 128 KiB in 4 layers are 33.5 MiB.
    assertThat(sink.writes()).isGreaterThan(20);
  }

  @Test
  void aSlowSinkHoldsUpTheSource() throws Exception {
    KvLayout large = new KvLayout("model-a", "F32", 4, 4, 16, 1024, 1);
    FakeSource source = new FakeSource(large, 70);
    FakeSink sink = new FakeSink(large, 70, 0).holding();
    generation.fetch(context.offer(source).descriptor(), sink);
    await("the sink has a piece", () -> sink.writes() > 0);
    Thread.sleep(100);
    assertThat(sink.writes()).isLessThanOrEqualTo(8);
    assertThat(source.ended()).isNotDone();
    sink.accept();
    assertThat(soon(sink.ended())).isNull();
    sink.requireComplete();
  }

  @Test
  void severalAtOnce() throws Exception {
    List<FakeSink> sinks = new ArrayList<>();
    List<FakeSource> sources = new ArrayList<>();
    for (int i = 0; i < 30; i++) {
      FakeSource source = new FakeSource(100 + i);
      FakeSink sink = new FakeSink(100 + i, i);
      sources.add(source);
      sinks.add(sink);
      generation.fetch(context.offer(source).descriptor(), sink);
    }
    for (int i = 0; i < 30; i++) {
      assertThat(soon(sinks.get(i).ended())).isNull();
      assertThat(soon(sources.get(i).ended())).isEqualTo("done");
      sinks.get(i).requireComplete();
    }
    assertNothingOpen();
  }

  static Stream<KvLayout> otherLayouts() {
    KvLayout l = FakeSource.LAYOUT;
    return Stream.of(
        new KvLayout("model-b", l.dtype(), 2, 3, 2, 4, 1),
        new KvLayout(l.model(), "F16", 2, 3, 2, 4, 1),
        new KvLayout(l.model(), l.dtype(), 4, 3, 2, 4, 1),
        new KvLayout(l.model(), l.dtype(), 2, 4, 2, 4, 1),
        new KvLayout(l.model(), l.dtype(), 2, 3, 1, 4, 1),
        new KvLayout(l.model(), l.dtype(), 2, 3, 2, 8, 1),
        new KvLayout(l.model(), l.dtype(), 2, 3, 2, 4, 2));
  }

  @ParameterizedTest
  @MethodSource("otherLayouts")
  void aMismatchIsRefusedByName(KvLayout other) throws Exception {
    FakeSource source = new FakeSource(5);
    KvDescriptor descriptor = context.offer(source).descriptor();
    KvTransferException refused = failure(descriptor, new FakeSink(other, 5, 0));
    assertThat(refused.reason()).isEqualTo(Reason.REFUSED);
    List<String> names =
        List.of("model", "dtype", "elementBytes", "layers", "heads", "headDim", "ranks");
    int differs = otherLayouts().toList().indexOf(other);
    assertThat(refused).hasMessageStartingWith(names.get(differs) + " differs");
    // It stays on offer for the right one.
    assertThat(source.ended()).isNotDone();
    FakeSink right = new FakeSink(5, 0);
    generation.fetch(descriptor, right);
    assertThat(soon(right.ended())).isNull();
  }

  @Test
  void anotherPromptIsRefused() throws Exception {
    FakeSource source = new FakeSource(5);
    KvOffer offer = context.offer(source);
    KvTransferException refused = failure(offer.descriptor(), new FakeSink(6, 0));
    assertThat(refused.reason()).isEqualTo(Reason.REFUSED);
    assertThat(refused).hasMessageStartingWith("prompt length differs");
    offer.withdraw(new KvTransferException(Reason.CANCELLED, "test"));
  }

  @Test
  void aPromptIsFetchedOnce() throws Exception {
    FakeSource source = new FakeSource(5);
    KvDescriptor descriptor = context.offer(source).descriptor();
    FakeSink sink = new FakeSink(5, 0);
    generation.fetch(descriptor, sink);
    assertThat(soon(sink.ended())).isNull();
    assertThat(soon(source.ended())).isEqualTo("done");
    assertThat(failure(descriptor, new FakeSink(5, 0)).reason()).isEqualTo(Reason.UNKNOWN);
  }

  @Test
  void aSecondFetchDoesNotDisturbTheFirst() throws Exception {
    FakeSource source = new FakeSource(5).holding();
    KvDescriptor descriptor = context.offer(source).descriptor();
    FakeSink sink = new FakeSink(5, 0);
    generation.fetch(descriptor, sink);
    source.awaitReading();
    assertThat(failure(descriptor, new FakeSink(5, 0)).reason()).isEqualTo(Reason.UNKNOWN);
    source.answer();
    assertThat(soon(sink.ended())).isNull();
    sink.requireComplete();
  }

  @Test
  void aForeignDescriptorIsRefused() throws Exception {
    KvTransferException refused =
        failure(new KvDescriptor(new byte[] {1, 2, 3}), new FakeSink(5, 0));
    assertThat(refused.reason()).isEqualTo(Reason.REFUSED);
  }

  @Test
  void aPromptThatWasWithdrawnIsUnknown() throws Exception {
    KvOffer offer = context.offer(new FakeSource(5));
    offer.withdraw(new KvTransferException(Reason.TIMEOUT, "test"));
    offer.withdraw(new KvTransferException(Reason.TIMEOUT, "again"));
    assertThat(failure(offer.descriptor(), new FakeSink(5, 0)).reason()).isEqualTo(Reason.UNKNOWN);
    assertNothingOpen();
  }

  @Test
  void withdrawingReachesTheOtherSide() throws Exception {
    FakeSource source = new FakeSource(5).holding();
    FakeSink sink = new FakeSink(5, 0);
    KvOffer offer = context.offer(source);
    generation.fetch(offer.descriptor(), sink);
    source.awaitReading();
    offer.withdraw(new KvTransferException(Reason.CANCELLED, "given up here"));
    assertThat(soon(sink.ended()).reason()).isEqualTo(Reason.CANCELLED);
    // What it answers now comes too late.
    source.answer();
    assertThat(sink.writes()).isZero();
    assertNothingOpen();
  }

  @Test
  void cancellingReachesTheOtherSide() throws Exception {
    FakeSource source = new FakeSource(5).holding();
    FakeSink sink = new FakeSink(5, 0);
    KvFetch fetch = generation.fetch(context.offer(source).descriptor(), sink);
    source.awaitReading();
    fetch.cancel(new KvTransferException(Reason.CANCELLED, "given up there"));
    fetch.cancel(new KvTransferException(Reason.CANCELLED, "again"));
    assertThat(soon(source.ended())).isEqualTo("CANCELLED");
    source.answer();
    Thread.sleep(50);
    assertThat(sink.writes()).isZero();
    assertThat(sink.ended()).as("who cancels is not told").isNotDone();
    assertNothingOpen();
  }

  @Test
  void closingTheContextSideEndsBoth() throws Exception {
    FakeSource source = new FakeSource(5).holding();
    FakeSource waiting = new FakeSource(5);
    FakeSink sink = new FakeSink(5, 0);
    context.offer(waiting);
    generation.fetch(context.offer(source).descriptor(), sink);
    source.awaitReading();
    context.close();
    assertThat(soon(source.ended())).isEqualTo("CLOSED");
    assertThat(soon(waiting.ended())).isEqualTo("CLOSED");
    assertThat(soon(sink.ended()).reason()).isIn(Reason.CLOSED, Reason.PEER_LOST);
    source.answer();
    KvTransferException refused =
        org.assertj.core.api.Assertions.catchThrowableOfType(
            KvTransferException.class, () -> context.offer(new FakeSource(5)));
    assertThat(refused.reason()).isEqualTo(Reason.CLOSED);
  }

  @Test
  void closingTheGenerationSideEndsBoth() throws Exception {
    FakeSource source = new FakeSource(5).holding();
    FakeSink sink = new FakeSink(5, 0);
    generation.fetch(context.offer(source).descriptor(), sink);
    source.awaitReading();
    generation.close();
    assertThat(soon(sink.ended()).reason()).isEqualTo(Reason.CLOSED);
    assertThat(soon(source.ended())).isIn("CLOSED", "CANCELLED", "PEER_LOST");
    source.answer();
  }

  void assertNothingOpen() {
    await("no transfer is left", SOON, () -> openTransfers() == 0);
  }

  /** The error of a fetch, thrown or told. */
  KvTransferException failure(KvDescriptor descriptor, FakeSink sink) throws Exception {
    try {
      generation.fetch(descriptor, sink);
    } catch (KvTransferException e) {
      return e;
    }
    KvTransferException error = soon(sink.ended());
    assertThat(error).as("an error").isNotNull();
    return error;
  }

  static <T> T soon(Future<T> future)
      throws InterruptedException, ExecutionException, TimeoutException {
    return future.get(10, TimeUnit.SECONDS);
  }
}
