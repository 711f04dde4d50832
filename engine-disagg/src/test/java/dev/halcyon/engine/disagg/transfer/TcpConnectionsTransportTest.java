package dev.halcyon.engine.disagg.transfer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.disagg.Leaks;
import dev.halcyon.engine.transfer.KvTransport;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** What holds over TCP, with several connections, and what these are for. */
class TcpConnectionsTransportTest extends TcpTransportTest {

  private static final int CONNECTIONS = 3;

  /** Pieces of a token each, so that small prompts take many. */
  private static final int PIECE_BYTES = FakeSource.LAYOUT.tokenBytes();

  private static final int TOKENS = 50;

  private final Leaks before = Leaks.since();

  @Override
  int connections() {
    return CONNECTIONS;
  }

  /** Connections that are there for pieces alone are closed with the one that they belong to. */
  @AfterEach
  void nothingIsLeft() throws InterruptedException {
    generation.close();
    context.close();
    before.awaitNoThreads();
    before.awaitNoSockets();
    assertNoBufferInUse();
  }

  private KvTransport fetchingTokens() {
    generation.close();
    generation =
        new TcpTransport(options().listen(false).token("secret").pieceBytes(PIECE_BYTES).build());
    return generation;
  }

  /** Fetches prompts until something came over as many connections as there are to be. */
  private void spread(TcpTransport server, Set<Integer> used) throws Exception {
    long deadline = System.nanoTime() + 20_000_000_000L;
    while (used.size() < CONNECTIONS) {
      assertThat(System.nanoTime()).as("something came over %s", used).isLessThan(deadline);
      requireFetched(server);
    }
  }

  /** Notes the connections that frames of some types, or any, come over; lets all pass. */
  private static FrameProxy.Change noting(Set<Integer> connections, Byte... types) {
    List<Byte> noted = List.of(types);
    return (connection, frame) -> {
      if (noted.isEmpty() || noted.contains(frame[0])) {
        connections.add(connection);
      }
      return List.of(frame);
    };
  }

  private void requireFetched(TcpTransport server) throws Exception {
    FakeSource source = new FakeSource(TOKENS);
    FakeSink sink = new FakeSink(TOKENS, 0);
    generation.fetch(server.offer(source).descriptor(), sink);
    assertThat(soon(sink.ended())).isNull();
    assertThat(soon(source.ended())).isEqualTo("done");
    sink.requireComplete();
  }

  @Test
  void piecesComeOverAllConnections() throws Exception {
    try (FrameProxy proxy = new FrameProxy();
        TcpTransport server = behind(proxy);
        KvTransport client = fetchingTokens()) {
      Set<Integer> used = ConcurrentHashMap.newKeySet();
      Set<Integer> spoken = ConcurrentHashMap.newKeySet();
      FrameProxy.Change pieces = noting(used, KvFrames.DATA);
      FrameProxy.Change words = noting(spoken, KvFrames.COMPUTED, KvFrames.END);
      proxy.transformByConnection(
          (connection, frame) -> {
            words.apply(connection, frame);
            return pieces.apply(connection, frame);
          });
      spread(server, used);
      assertThat(used).containsExactlyInAnyOrder(0, 1, 2);
      assertThat(spoken).containsExactly(0);
    }
  }

  @Test
  void oneThatIsCutTakesTheOthersWithItAndTheNextTransferMakesAllAnew() throws Exception {
    for (int cut = 0; cut < CONNECTIONS; cut++) {
      requireAllAnewAfter(cut);
    }
  }

  private void requireAllAnewAfter(int cut) throws Exception {
    try (FrameProxy proxy = new FrameProxy();
        TcpTransport server = behind(proxy);
        KvTransport client = fetchingTokens()) {
      Set<Integer> used = ConcurrentHashMap.newKeySet();
      FrameProxy.Change noting = noting(used, KvFrames.DATA);
      proxy.transformByConnection(noting);
      spread(server, used);
      proxy.transformByConnection(
          (connection, frame) ->
              connection == cut && frame[0] == KvFrames.DATA ? null : List.of(frame));
      FakeSource source = new FakeSource(TOKENS);
      FakeSink sink = new FakeSink(TOKENS, 0);
      generation.fetch(server.offer(source).descriptor(), sink);
      assertThat(soon(sink.ended()).reason()).isEqualTo(Reason.PEER_LOST);
      assertThat(soon(source.ended())).isEqualTo("PEER_LOST");
      used.clear();
      proxy.transformByConnection(noting);
      spread(server, used);
      assertThat(used).containsExactlyInAnyOrder(3, 4, 5);
    }
  }

  /** Connections that the other side does not let through, or only after a while. */
  @Test
  void transfersDoWithoutThoseThatAreNotToBeHad() throws Exception {
    try (FrameProxy proxy = new FrameProxy();
        TcpTransport server = behind(proxy);
        KvTransport client = fetchingTokens()) {
      Set<Integer> asked = ConcurrentHashMap.newKeySet();
      proxy.transformByConnection(
          (connection, frame) -> {
            asked.add(connection);
            return connection == 0 ? List.of(frame) : null;
          });
      spread(server, asked);
      requireFetched(server);
      assertThat(asked).containsExactlyInAnyOrder(0, 1, 2);
    }
  }

  /** As behind a name that several prefill engines share. */
  @Test
  void connectionsThatLeadElsewhereAreNotUsed() throws Exception {
    try (FrameProxy proxy = new FrameProxy();
        TcpTransport server = behind(proxy);
        TcpTransport another = new TcpTransport(options().token("secret").build());
        KvTransport client = fetchingTokens()) {
      Set<Integer> welcome = ConcurrentHashMap.newKeySet();
      Set<Integer> used = ConcurrentHashMap.newKeySet();
      FrameProxy.Change welcomes = noting(welcome, KvFrames.WELCOME);
      FrameProxy.Change pieces = noting(used, KvFrames.DATA);
      proxy.transformByConnection(
          (connection, frame) -> {
            proxy.redirect(another.port());
            welcomes.apply(connection, frame);
            return pieces.apply(connection, frame);
          });
      spread(server, welcome);
      for (int i = 0; i < 20; i++) {
        requireFetched(server);
      }
      assertThat(used).containsExactly(0);
    }
  }

  /** All of them: nobody is left who could say that it is idle, or that it is not. */
  @Test
  void theOtherSidesEndIsThatOfAll() throws Exception {
    try (FrameProxy proxy = new FrameProxy();
        TcpTransport server = behind(proxy);
        KvTransport client = fetchingTokens()) {
      Set<Integer> used = ConcurrentHashMap.newKeySet();
      proxy.transformByConnection(noting(used));
      spread(server, used);
      FakeSource source = new FakeSource(TOKENS).holding();
      FakeSink sink = new FakeSink(TOKENS, 0);
      generation.fetch(server.offer(source).descriptor(), sink);
      source.awaitReading();
      server.close();
      assertThat(soon(sink.ended()).reason()).isIn(Reason.CLOSED, Reason.PEER_LOST);
      assertThat(soon(source.ended())).isEqualTo("CLOSED");
      source.answer();
      assertThat(((TcpTransport) client).openTransfers()).isZero();
    }
  }

  /** Sockets that are made while threads end are closed too; see {@link #nothingIsLeft}. */
  @Test
  void closingWhileConnectionsAreMade() throws Exception {
    for (int i = 0; i < 500; i++) {
      try (TcpTransport client =
          new TcpTransport(options().listen(false).token("secret").build())) {
        FakeSink sink = new FakeSink(5, 0);
        client.fetch(context.offer(new FakeSource(5)).descriptor(), sink);
        assertThat(soon(sink.ended())).isNull();
      }
    }
  }

  /** A token that differs is refused once, not once for each connection. */
  @Test
  void othersAreMadeOnlyOnceTheFirstIsWelcome() throws Exception {
    try (FrameProxy proxy = new FrameProxy();
        TcpTransport server = behind(proxy);
        KvTransport client = new TcpTransport(options().listen(false).token("another").build())) {
      Set<Integer> asked = ConcurrentHashMap.newKeySet();
      proxy.transformByConnection(noting(asked));
      generation.close();
      generation = client;
      KvTransferException refused =
          failure(server.offer(new FakeSource(5)).descriptor(), new FakeSink(5, 0));
      assertThat(refused.reason()).isEqualTo(Reason.REFUSED);
      assertThat(asked).containsExactly(0);
    }
  }
}
