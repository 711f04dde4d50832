package dev.halcyon.engine.disagg.transfer;

import static dev.halcyon.engine.disagg.Waiting.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvLayout;
import dev.halcyon.engine.transfer.KvTransport;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The contract over UCX, and what a network adds to it. */
@ExtendWith(NeedsUcx.class)
class UcxTransportTest extends NetworkTransportContract {

  /** A token's keys and values of a layer have 128 KiB here: 33.5 MiB for 67 tokens in 4 layers. */
  private static final KvLayout LARGE = new KvLayout("model-a", "F32", 4, 4, 16, 1024, 1);

  private UcxTransport listening;
  private UcxTransport connecting;

  UcxTransportTest() {
    super(NetworkTransport.UCX);
  }

  @Override
  void openTransports() {
    open(Map.of());
  }

  private void open(Map<String, String> settings) {
    listening = new UcxTransport(options().token("secret").build(), settings);
    connecting = new UcxTransport(options().listen(false).token("secret").build(), settings);
    context = listening;
    generation = connecting;
  }

  @Override
  int openTransfers(KvTransport transport) {
    return ((UcxTransport) transport).openTransfers();
  }

  @Override
  int buffersInUse(KvTransport transport) {
    return ((UcxTransport) transport).buffersInUse();
  }

  @AfterEach
  void noThreadIsLeft() {
    listening.close();
    connecting.close();
    await(
        "no thread is left",
        SOON,
        () ->
            Thread.getAllStackTraces().keySet().stream()
                .noneMatch(thread -> thread.getName().startsWith("halcyon-ucx")));
  }

  /** Pieces above the threshold are fetched from the sender's memory; those below it are sent. */
  @ParameterizedTest
  @CsvSource({"256,all", "inf,all", "256,tcp", "inf,tcp"})
  void everyWayThatUcxSendsLargeMessages(String threshold, String kinds) throws Exception {
    close();
    open(Map.of("RNDV_THRESH", threshold, "TLS", kinds));
    FakeSource source = new FakeSource(LARGE, 70);
    FakeSink sink = new FakeSink(LARGE, 70, 3);
    generation.fetch(context.offer(source).descriptor(), sink);
    assertThat(soon(sink.ended())).isNull();
    assertThat(soon(source.ended())).isEqualTo("done");
    sink.requireComplete();
    assertNoBufferInUse();
  }

  @ParameterizedTest
  @ValueSource(strings = {"256", "inf"})
  void whatIsUnderWayIsGivenUp(String threshold) throws Exception {
    close();
    open(Map.of("RNDV_THRESH", threshold));
    FakeSource source = new FakeSource(LARGE, 70);
    FakeSink sink = new FakeSink(LARGE, 70, 0).holding();
    KvFetch fetch = generation.fetch(context.offer(source).descriptor(), sink);
    await("the sink has a piece", () -> sink.writes() > 0);
    // No more than may be on their way at once.
    assertThat(connecting.buffersInUse()).isBetween(1, 8);
    fetch.cancel(new KvTransferException(Reason.CANCELLED, "test"));
    assertThat(soon(source.ended())).isEqualTo("CANCELLED");
    sink.accept();
    assertNothingOpen();
    assertNoBufferInUse();
    FakeSink next = new FakeSink(5, 0);
    generation.fetch(context.offer(new FakeSource(5)).descriptor(), next);
    assertThat(soon(next.ended())).isNull();
  }

  /** An engine may still read and write when the transport is closed: memory stays its own. */
  @Test
  void closingWhileEnginesUseBuffers() throws Exception {
    FakeSource source = new FakeSource(LARGE, 20).holding();
    FakeSource other = new FakeSource(LARGE, 20);
    FakeSink sink = new FakeSink(LARGE, 20, 0);
    FakeSink otherSink = new FakeSink(LARGE, 20, 0).holding();
    generation.fetch(context.offer(source).descriptor(), sink);
    generation.fetch(context.offer(other).descriptor(), otherSink);
    source.awaitReading();
    await("the other sink has a piece", () -> otherSink.writes() > 0);
    generation.close();
    context.close();
    source.answer();
    otherSink.accept();
    assertThat(soon(sink.ended()).reason()).isEqualTo(Reason.CLOSED);
  }

  /** Whatever begins while a transport closes, ends, and the transport with it. */
  @Test
  void closingWhileTransfersBegin() throws Exception {
    for (int round = 0; round < 5; round++) {
      List<FakeSink> sinks = new ArrayList<>();
      CompletableFuture<Void> started = new CompletableFuture<>();
      CompletableFuture<Void> fetching =
          CompletableFuture.runAsync(
              () -> {
                try {
                  while (true) {
                    FakeSink sink = new FakeSink(5, 0);
                    KvDescriptor descriptor = context.offer(new FakeSource(5)).descriptor();
                    generation.fetch(descriptor, sink);
                    sinks.add(sink);
                    started.complete(null);
                  }
                } catch (KvTransferException e) {
                  assertThat(e.reason()).isEqualTo(Reason.CLOSED);
                }
              });
      soon(started);
      (round % 2 == 0 ? generation : context).close();
      (round % 2 == 0 ? context : generation).close();
      soon(fetching);
      for (FakeSink sink : sinks) {
        soon(sink.ended());
      }
      open(Map.of());
    }
  }

  @Test
  void aHostThatIsNotThere() throws Exception {
    KvTransferException lost =
        failure(address("nowhere.invalid", 1).descriptor(), new FakeSink(5, 0));
    assertThat(lost.reason()).isEqualTo(Reason.PEER_LOST);
    assertThat(lost).hasMessageContaining("nowhere.invalid:1: there is no host of this name");
    assertNothingOpen();
  }

  @Test
  void anotherKindOfTransportIsRefused() throws Exception {
    try (TcpTransport tcp = new TcpTransport(NetworkOptions.builder().build())) {
      KvTransferException refused =
          failure(tcp.offer(new FakeSource(5)).descriptor(), new FakeSink(5, 0));
      assertThat(refused.reason()).isEqualTo(Reason.REFUSED);
      assertThat(refused).hasMessageContaining("kind ucx");
    }
  }

  @Test
  void aPortThatIsTakenIsSaid() {
    assertThatThrownBy(
            () -> new UcxTransport(NetworkOptions.builder().port(listening.port()).build()))
        .isInstanceOf(KvTransferException.class)
        .hasMessageContaining("Can't listen on 127.0.0.1:" + listening.port());
  }

  @Test
  void onlyOneThatListensCanOffer() {
    assertThatThrownBy(() -> connecting.offer(new FakeSource(5)))
        .isInstanceOf(KvTransferException.class)
        .hasMessageContaining("does not listen");
    assertThatThrownBy(connecting::port).isInstanceOf(IllegalStateException.class);
  }

  @Test
  void openingAndClosingLeavesNoFileBehind() throws Exception {
    close();
    long before = openFiles();
    for (int i = 0; i < 3; i++) {
      open(Map.of());
      FakeSink sink = new FakeSink(50, 0);
      generation.fetch(context.offer(new FakeSource(50)).descriptor(), sink);
      assertThat(soon(sink.ended())).isNull();
      close();
    }
    assertThat(openFiles()).isLessThanOrEqualTo(before);
  }

  private static long openFiles() throws IOException {
    try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"))) {
      return files.count();
    }
  }
}
