package dev.halcyon.engine.disagg.transfer;

import static dev.halcyon.engine.disagg.Waiting.await;
import static dev.halcyon.engine.disagg.transfer.KvTransportContract.soon;
import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.disagg.transfer.UcxTestPeers.Client;
import dev.halcyon.engine.disagg.transfer.UcxTestPeers.Damaging;
import dev.halcyon.engine.disagg.transfer.UcxTestPeers.Repeating;
import dev.halcyon.engine.disagg.transfer.UcxTestPeers.Server;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Peers over UCX that do not keep to the protocol. */
@ExtendWith(NeedsUcx.class)
class UcxPeerTest {

  private static final NetworkOptions CONNECT = NetworkOptions.builder().listen(false).build();

  @Test
  void anotherVersionIsRefusedByName() throws Exception {
    try (UcxTransport server = new UcxTransport(NetworkOptions.builder().build());
        Client client = new Client(server.port())) {
      ByteBuffer hello = ByteBuffer.allocate(1 + 4 + 2 + 32);
      hello.put(KvFrames.HELLO).put("HKVT".getBytes(StandardCharsets.US_ASCII));
      client.session.say(hello.putShort((short) 7).array());
      byte[] refusal = client.session.frames.poll(10, TimeUnit.SECONDS);
      assertThat(refusal[0]).isEqualTo(KvFrames.REFUSE);
      assertThat(new String(refusal, StandardCharsets.US_ASCII))
          .contains("protocol version differs: 4")
          .contains("7 where it is to be continued");
    }
  }

  @Test
  void aClientThatDoesNotSpeakIsCutOff() throws Exception {
    NetworkOptions hasty = NetworkOptions.builder().connectTimeout(Duration.ofMillis(200)).build();
    try (UcxTransport server = new UcxTransport(hasty);
        Client client = new Client(server.port())) {
      soon(client.session.lost);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "\1", "\1HKVT", "\6some open", "\10a piece", "GET / HTTP/1.1"})
  void noiseEndsItsConnectionAlone(String noise) throws Exception {
    try (UcxTransport server = new UcxTransport(NetworkOptions.builder().build());
        UcxTransport good = new UcxTransport(CONNECT);
        Client client = new Client(server.port())) {
      FakeSource source = new FakeSource(50).holding();
      FakeSink sink = new FakeSink(50, 0);
      good.fetch(server.offer(source).descriptor(), sink);
      source.awaitReading();
      client.session.say(noise.getBytes(StandardCharsets.ISO_8859_1));
      soon(client.session.lost);
      source.answer();
      assertThat(soon(sink.ended())).isNull();
      sink.requireComplete();
    }
  }

  @Test
  void aFrameThatIsTooLongEndsItsConnection() throws Exception {
    try (UcxTransport server = new UcxTransport(NetworkOptions.builder().build());
        Client client = new Client(server.port())) {
      byte[] hello = new byte[KvFrames.MAX_CONTROL_BYTES + 1];
      ByteBuffer.wrap(hello).put(KvFrames.HELLO).put("HKVT".getBytes(StandardCharsets.US_ASCII));
      client.session.say(hello);
      soon(client.session.lost);
    }
  }

  /** Nobody asked the context side for a piece, nor has it memory for one. */
  @Test
  void aPieceForTheContextSideIsDropped() throws Exception {
    try (UcxTransport server = new UcxTransport(NetworkOptions.builder().build());
        Client client = new Client(server.port())) {
      KvConnection connection = soon(client.session.opened);
      CompletableFuture<Void> sent = new CompletableFuture<>();
      connection
          .piece(new PieceHeader(UUID.randomUUID(), 0, false, 0), 1 << 20)
          .send(() -> sent.complete(null));
      soon(sent);
      assertThat(server.buffersInUse()).isZero();
    }
  }

  /** By messages that bring their data, and by ones whose data is fetched. */
  @ParameterizedTest
  @ValueSource(strings = {"inf", "256"})
  void piecesThatComeTwiceOrLateAreIgnored(String threshold) throws Exception {
    try (Server server = new Server(threshold, Repeating::new);
        UcxTransport client = new UcxTransport(CONNECT, Map.of("RNDV_THRESH", threshold))) {
      for (int i = 0; i < 3; i++) {
        FakeSource source = new FakeSource(500);
        FakeSink sink = new FakeSink(500, 0);
        client.fetch(server.offer(source), sink);
        assertThat(soon(sink.ended())).isNull();
        assertThat(soon(source.ended())).isEqualTo("done");
        sink.requireComplete();
      }
      awaitNoBufferInUse(client);
    }
  }

  @ParameterizedTest
  @CsvSource({"inf,true", "256,true", "inf,false", "256,false"})
  void damagedPiecesAreNotTaken(String threshold, boolean shorter) throws Exception {
    try (Server server = new Server(threshold, inner -> new Damaging(inner, shorter));
        UcxTransport client = new UcxTransport(CONNECT, Map.of("RNDV_THRESH", threshold))) {
      FakeSource source = new FakeSource(500);
      FakeSink sink = new FakeSink(500, 0);
      client.fetch(server.offer(source), sink);
      assertThat(soon(sink.ended()).reason()).isEqualTo(Reason.CORRUPT);
      assertThat(soon(source.ended())).isEqualTo("CORRUPT");
      assertThat(sink.writes()).isZero();
      assertThat(client.openTransfers()).isZero();
      awaitNoBufferInUse(client);
    }
  }

  private static void awaitNoBufferInUse(UcxTransport transport) {
    await("no buffer is in use", KvTransportContract.SOON, () -> transport.buffersInUse() == 0);
  }
}
