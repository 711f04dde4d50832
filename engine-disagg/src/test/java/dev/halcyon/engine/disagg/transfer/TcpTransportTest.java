package dev.halcyon.engine.disagg.transfer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvTransport;
import java.io.DataInputStream;
import java.io.IOException;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The contract over loopback, and what a network adds to it. */
class TcpTransportTest extends NetworkTransportContract {

  private TcpTransport listening;
  private TcpTransport connecting;

  TcpTransportTest() {
    super(NetworkTransport.TCP);
  }

  @Override
  void openTransports() {
    listening = new TcpTransport(options().token("secret").build());
    connecting = new TcpTransport(options().listen(false).token("secret").build());
    context = listening;
    generation = connecting;
  }

  @Override
  int openTransfers(KvTransport transport) {
    return ((TcpTransport) transport).openTransfers();
  }

  @Override
  int buffersInUse(KvTransport transport) {
    return ((TcpTransport) transport).buffersInUse();
  }

  /** The token never goes over the wire: not to the other side, and not to one who claims to be. */
  @Test
  void theTokenIsNotSent() throws Exception {
    try (FrameProxy proxy = new FrameProxy();
        TcpTransport server =
            new TcpTransport(options().token("secret").advertisedPort(proxy.port()).build())) {
      proxy.forwardTo(server.port());
      FakeSink sink = new FakeSink(5, 0);
      generation.fetch(server.offer(new FakeSource(5)).descriptor(), sink);
      assertThat(soon(sink.ended())).isNull();
      assertThat(new String(proxy.toServer(), StandardCharsets.ISO_8859_1))
          .contains("HKVT")
          .doesNotContain("secret");
    }
  }

  @Test
  void aClientThatDoesNotSpeakIsCutOff() throws Exception {
    try (TcpTransport server =
            new TcpTransport(
                NetworkOptions.builder().connectTimeout(Duration.ofMillis(200)).build());
        Socket socket = new Socket("127.0.0.1", server.port())) {
      socket.setSoTimeout(5000);
      assertThat(socket.getInputStream().read()).isEqualTo(-1);
    }
  }

  @Test
  void anotherVersionIsRefusedByName() throws Exception {
    ByteBuffer hello = ByteBuffer.allocate(4 + 1 + 4 + 2 + 32);
    hello.putInt(39).put(KvFrames.HELLO).put("HKVT".getBytes(StandardCharsets.US_ASCII));
    hello.putShort((short) 7);
    try (Socket socket = new Socket("127.0.0.1", listening.port())) {
      socket.setSoTimeout(5000);
      socket.getOutputStream().write(hello.array());
      DataInputStream in = new DataInputStream(socket.getInputStream());
      byte[] frame = in.readNBytes(in.readInt());
      assertThat(frame[0]).isEqualTo(KvFrames.REFUSE);
      assertThat(new String(frame, StandardCharsets.UTF_8))
          .contains("REFUSED")
          .contains("protocol version differs: 4 where")
          .contains("7 where it is to be");
      assertThat(in.read()).isEqualTo(-1);
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"GET / HTTP/1.1", "\u0000\u0000\u0000\u0001\u0006", "\u0000\u0000\u0000\u0000"})
  void noiseEndsItsConnectionAlone(String noise) throws Exception {
    FakeSource source = new FakeSource(5).holding();
    FakeSink sink = new FakeSink(5, 0);
    generation.fetch(context.offer(source).descriptor(), sink);
    source.awaitReading();
    try (Socket socket = new Socket("127.0.0.1", listening.port())) {
      socket.setSoTimeout(10000);
      socket.getOutputStream().write((noise + "\r\n\r\n").getBytes(StandardCharsets.ISO_8859_1));
      try {
        assertThat(socket.getInputStream().read()).isEqualTo(-1);
      } catch (IOException e) {
        // Reset in place of an end: closed with noise unread.
      }
    }
    source.answer();
    assertThat(soon(sink.ended())).isNull();
    sink.requireComplete();
  }

  @Test
  void damagedDataIsNotTaken() throws Exception {
    try (FrameProxy proxy = new FrameProxy();
        TcpTransport server = behind(proxy)) {
      proxy.transform(
          frame -> {
            if (frame[0] == KvFrames.DATA) {
              frame[frame.length - 1] ^= 4;
            }
            return List.of(frame);
          });
      FakeSource source = new FakeSource(50);
      FakeSink sink = new FakeSink(50, 0);
      generation.fetch(server.offer(source).descriptor(), sink);
      assertThat(soon(sink.ended()).reason()).isEqualTo(Reason.CORRUPT);
      assertThat(soon(source.ended())).isEqualTo("CORRUPT");
      assertThat(sink.writes()).isZero();
      assertThat(server.openTransfers()).isZero();
    }
  }

  /** The flag stands behind type, transfer and number; 2 is none. */
  @ParameterizedTest
  @ValueSource(bytes = {1, 2})
  void anOrderThatWasNotAskedForIsNotTaken(byte flag) throws Exception {
    try (FrameProxy proxy = new FrameProxy();
        TcpTransport server = behind(proxy)) {
      proxy.transform(
          frame -> {
            if (frame[0] == KvFrames.DATA) {
              frame[1 + 16 + 4] = flag;
            }
            return List.of(frame);
          });
      FakeSource source = new FakeSource(50).ordered("a/16");
      FakeSink sink = new FakeSink(50, 0);
      generation.fetch(server.offer(source).descriptor(), sink);
      assertThat(soon(sink.ended()).reason())
          .isEqualTo(flag == 1 ? Reason.CORRUPT : Reason.PEER_LOST);
      soon(source.ended());
      assertThat(sink.writes()).isZero();
    }
  }

  @Test
  void framesThatComeTwiceOrLateAreIgnored() throws Exception {
    try (FrameProxy proxy = new FrameProxy();
        TcpTransport server = behind(proxy)) {
      byte[][] early = new byte[1][];
      proxy.transform(
          frame -> {
            if (frame[0] != KvFrames.DATA) {
              return List.of(frame);
            }
            if (early[0] == null) {
              early[0] = frame.clone();
            }
            // Each twice, and the first of the first transfer again and again.
            return List.of(frame, frame.clone(), early[0].clone());
          });
      for (int i = 0; i < 3; i++) {
        FakeSource source = new FakeSource(50);
        FakeSink sink = new FakeSink(50, 0);
        generation.fetch(server.offer(source).descriptor(), sink);
        assertThat(soon(sink.ended())).isNull();
        assertThat(soon(source.ended())).isEqualTo("done");
        sink.requireComplete();
      }
    }
  }

  @Test
  void aConnectionThatIsCutEndsBothSides() throws Exception {
    try (FrameProxy proxy = new FrameProxy();
        TcpTransport server = behind(proxy)) {
      int[] data = {0};
      proxy.transform(frame -> frame[0] == KvFrames.DATA && ++data[0] == 2 ? null : List.of(frame));
      FakeSource source = new FakeSource(50);
      FakeSource other = new FakeSource(50);
      FakeSink sink = new FakeSink(50, 0);
      server.offer(other);
      generation.fetch(server.offer(source).descriptor(), sink);
      assertThat(soon(sink.ended()).reason()).isEqualTo(Reason.PEER_LOST);
      assertThat(soon(source.ended())).isEqualTo("PEER_LOST");
      assertThat(other.ended()).as("one that nobody was fetching").isNotDone();
      // The next transfer makes a connection of its own.
      proxy.transform(List::of);
      FakeSource next = new FakeSource(50);
      FakeSink nextSink = new FakeSink(50, 0);
      generation.fetch(server.offer(next).descriptor(), nextSink);
      assertThat(soon(nextSink.ended())).isNull();
      nextSink.requireComplete();
    }
  }

  @Test
  void cancellingBeforeThereIsAConnectionReachesTheOtherSide() throws Exception {
    FakeSource source = new FakeSource(5);
    FakeSink sink = new FakeSink(5, 0);
    KvFetch fetch = generation.fetch(context.offer(source).descriptor(), sink);
    fetch.cancel(new KvTransferException(Reason.CANCELLED, "at once"));
    assertThat(soon(source.ended())).isIn("CANCELLED", "done");
    assertNothingOpen();
  }

  @Test
  void onlyOneThatListensCanOffer() {
    assertThatThrownBy(() -> connecting.offer(new FakeSource(5)))
        .isInstanceOf(KvTransferException.class)
        .hasMessageContaining("does not listen");
    assertThatThrownBy(connecting::port).isInstanceOf(IllegalStateException.class);
  }

  @Test
  void aPortThatIsTakenIsSaid() {
    assertThatThrownBy(
            () -> new TcpTransport(NetworkOptions.builder().port(listening.port()).build()))
        .isInstanceOf(KvTransferException.class)
        .hasMessageContaining("Can't listen on 127.0.0.1:" + listening.port());
  }

  @Test
  void optionsAreChecked() {
    assertThatThrownBy(() -> NetworkOptions.builder().port(65536).build())
        .hasMessageStartingWith("port");
    assertThatThrownBy(() -> NetworkOptions.builder().window(0).build())
        .hasMessageStartingWith("window");
    assertThatThrownBy(() -> NetworkOptions.builder().connections(0).build())
        .hasMessageStartingWith("connections");
    assertThatThrownBy(() -> NetworkOptions.builder().connections(65).build())
        .hasMessageStartingWith("connections");
    assertThatThrownBy(() -> NetworkOptions.builder().workers(-1).build())
        .hasMessageStartingWith("workers");
    assertThatThrownBy(() -> NetworkOptions.builder().token("").build())
        .hasMessageStartingWith("token");
    assertThatThrownBy(() -> NetworkOptions.builder().host("0.0.0.0").build())
        .hasMessageStartingWith("advertisedHost");
    NetworkOptions.builder().host("0.0.0.0").advertisedHost("prefill-0").build();
    assertThat(NetworkOptions.builder().token("secret").build().toString())
        .doesNotContain("secret");
  }

  @ParameterizedTest
  @CsvSource({"1,2", "2,2", "3,3", "64,64"})
  void threadsFollowTheConnections(int connections, int threads) {
    assertThat(NetworkOptions.builder().connections(connections).build().threads())
        .isEqualTo(threads);
    assertThat(NetworkOptions.builder().threads(1).connections(connections).build().threads())
        .isEqualTo(1);
  }

  @ParameterizedTest
  @CsvSource({"1,0,1", "2,0,1", "3,0,1", "4,1,1", "8,2,2", "16,4,4", "64,4,4"})
  void workersAndConnectionsFollowTheProcessors(int processors, int workers, int connections) {
    assertThat(NetworkOptions.defaultWorkers(processors)).isEqualTo(workers);
    assertThat(NetworkOptions.defaultConnections(processors)).isEqualTo(connections);
  }

  final TcpTransport behind(FrameProxy proxy) throws IOException {
    TcpTransport server =
        new TcpTransport(options().token("secret").advertisedPort(proxy.port()).build());
    proxy.forwardTo(server.port());
    return server;
  }
}
