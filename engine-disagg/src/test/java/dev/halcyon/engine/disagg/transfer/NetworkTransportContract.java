package dev.halcyon.engine.disagg.transfer;

import static dev.halcyon.engine.disagg.Waiting.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.transfer.KvTransport;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.Locale;
import java.util.UUID;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** The contract of transports, and what every network adds to it. */
abstract class NetworkTransportContract extends KvTransportContract {

  private final NetworkTransport kind;

  NetworkTransportContract(NetworkTransport kind) {
    this.kind = kind;
  }

  /** None unless a test for them says otherwise: then a connection's thread does all. */
  int workers() {
    return 0;
  }

  /** One, as by default, unless a test for more says otherwise. */
  int connections() {
    return 1;
  }

  final NetworkOptions.Builder options() {
    return NetworkOptions.builder().workers(workers()).connections(connections());
  }

  /** The buffers of pieces that a transport of this kind has in use. */
  abstract int buffersInUse(KvTransport transport);

  /** The transfers that a transport of this kind has open. */
  abstract int openTransfers(KvTransport transport);

  @Override
  final int openTransfers() {
    return openTransfers(context) + openTransfers(generation);
  }

  /** An address of this kind. */
  final PeerAddress address(String host, int port) {
    return new PeerAddress(kind.name().toLowerCase(Locale.ROOT), host, port, UUID.randomUUID());
  }

  @ParameterizedTest
  @CsvSource(
      nullValues = "none",
      value = {"other,secret", "none,secret", "secret,none"})
  void anotherTokenIsRefused(String here, String there) throws Exception {
    try (KvTransport server = kind.open(options().token(there).build());
        KvTransport client = kind.open(options().listen(false).token(here).build())) {
      generation.close();
      generation = client;
      FakeSource source = new FakeSource(5);
      KvTransferException refused = failure(server.offer(source).descriptor(), new FakeSink(5, 0));
      assertThat(refused.reason()).isEqualTo(Reason.REFUSED);
      assertThat(refused).hasMessageStartingWith("token differs");
      assertThat(source.ended()).isNotDone();
      assertThat(openTransfers(client)).isZero();
    }
  }

  /** Pieces are sent as both sides store them, or else in the order that all understand. */
  @ParameterizedTest
  @CsvSource(
      nullValues = "none",
      value = {"a/16,a/16,true", "a/16,a/32,false", "none,a/16,false", "a/16,none,false"})
  void piecesComeAsTheyAreStoredWhereBothSidesStoreAlike(String here, String there, boolean stored)
      throws Exception {
    FakeSource source = new FakeSource(1000).ordered(here);
    FakeSink sink = new FakeSink(1000, 3).ordered(there);
    generation.fetch(context.offer(source).descriptor(), sink);
    assertThat(soon(sink.ended())).isNull();
    sink.requireComplete();
    assertThat(sink.storedWrites()).isEqualTo(stored ? sink.writes() : 0);
  }

  static Stream<Throwable> failures() {
    return Stream.of(new IllegalStateException("broken"), new OutOfMemoryError("broken"));
  }

  /** It ends its own transfer, with memory given back, and no other of the connection. */
  @ParameterizedTest
  @MethodSource("failures")
  void aSourceThatThrowsEndsItsTransferAlone(Throwable failure) throws Exception {
    FakeSource other = new FakeSource(5).holding();
    FakeSink otherSink = new FakeSink(5, 0);
    generation.fetch(context.offer(other).descriptor(), otherSink);
    other.awaitReading();
    FakeSource source = new FakeSource(50).onRead(() -> sneakyThrow(failure));
    KvTransferException error = failure(context.offer(source).descriptor(), new FakeSink(50, 0));
    assertThat(error.reason()).isEqualTo(Reason.PEER_LOST);
    assertThat(error).hasMessageContaining("can't be read").hasMessageContaining("broken");
    assertThat(soon(source.ended())).isEqualTo("PEER_LOST");
    requireGood(other, otherSink);
  }

  @ParameterizedTest
  @MethodSource("failures")
  void aSinkThatThrowsEndsItsTransferAlone(Throwable failure) throws Exception {
    FakeSource other = new FakeSource(5).holding();
    FakeSink otherSink = new FakeSink(5, 0);
    generation.fetch(context.offer(other).descriptor(), otherSink);
    other.awaitReading();
    FakeSource source = new FakeSource(50);
    FakeSink sink = new FakeSink(50, 0).onWrite(() -> sneakyThrow(failure));
    KvTransferException error = failure(context.offer(source).descriptor(), sink);
    assertThat(error.reason()).isEqualTo(Reason.PEER_LOST);
    assertThat(error).hasMessageContaining("can't be written").hasMessageContaining("broken");
    assertThat(soon(source.ended())).isEqualTo("PEER_LOST");
    requireGood(other, otherSink);
  }

  private void requireGood(FakeSource source, FakeSink sink) throws Exception {
    source.answer();
    assertThat(soon(sink.ended())).isNull();
    sink.requireComplete();
    assertNothingOpen();
    assertNoBufferInUse();
  }

  @SuppressWarnings("unchecked")
  private static <T extends Throwable> void sneakyThrow(Throwable failure) throws T {
    throw (T) failure;
  }

  /** Waits until no transport has memory of a piece with somebody. */
  final void assertNoBufferInUse() {
    await("no buffer is in use", SOON, () -> buffersInUse(context) + buffersInUse(generation) == 0);
  }

  @Test
  void aPeerThatIsNotThere() throws Exception {
    int port;
    try (ServerSocket taken = new ServerSocket(0)) {
      port = taken.getLocalPort();
    }
    KvTransferException lost = failure(address("127.0.0.1", port).descriptor(), new FakeSink(5, 0));
    assertThat(lost.reason()).isEqualTo(Reason.PEER_LOST);
    assertNothingOpen();
  }

  @Test
  void aPeerThatDoesNotAnswer() throws Exception {
    try (ServerSocket silent = new ServerSocket(0);
        KvTransport client =
            kind.open(options().listen(false).connectTimeout(Duration.ofMillis(200)).build())) {
      generation.close();
      generation = client;
      KvTransferException lost =
          failure(address("127.0.0.1", silent.getLocalPort()).descriptor(), new FakeSink(5, 0));
      assertThat(lost.reason()).isEqualTo(Reason.PEER_LOST);
      assertThat(openTransfers(client)).isZero();
    }
  }
}
