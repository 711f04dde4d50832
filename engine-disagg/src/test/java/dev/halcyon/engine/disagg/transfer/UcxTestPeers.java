package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.transfer.KvSource;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import org.openucx.jucx.UcxUtils;
import org.openucx.jucx.ucp.UcpConstants;

/** Peers over UCX that do not keep to the protocol. */
final class UcxTestPeers {

  private UcxTestPeers() {}

  /** One that says what a test wants to a context side. */
  static final class Client implements AutoCloseable {

    private final UcxNode node;
    final ScriptedSession session;

    Client(int port) throws Exception {
      NetworkOptions options = NetworkOptions.builder().listen(false).build();
      node = new UcxNode(options, Map.of(), ScriptedSession::new, () -> {});
      CompletableFuture<ScriptedSession> there = new CompletableFuture<>();
      node.connect(
          new PeerAddress("ucx", "127.0.0.1", port, UUID.randomUUID()),
          connection -> {
            ScriptedSession made = new ScriptedSession(connection);
            there.complete(made);
            return made;
          },
          there::completeExceptionally);
      session = KvTransportContract.soon(there);
      KvTransportContract.soon(session.opened);
    }

    @Override
    public void close() {
      node.close();
    }
  }

  /** A context side whose connections do to pieces what networks, or worse, do. */
  static final class Server implements AutoCloseable {

    private final NetworkTransfers transfers;
    private final UcxNode node;

    Server(String rendezvousThreshold, Function<UcxConnection, KvConnection> tamper) {
      NetworkOptions options = NetworkOptions.builder().build();
      transfers =
          new NetworkTransfers(
              "ucx",
              options,
              (address, peer) -> {
                throw new AssertionError("a server does not connect");
              });
      node =
          new UcxNode(
              options,
              Map.of("RNDV_THRESH", rendezvousThreshold),
              connection -> transfers.serve(tamper.apply((UcxConnection) connection)),
              () -> {});
    }

    KvDescriptor offer(KvSource source) {
      return transfers.offer(source, node.address().getPort()).descriptor();
    }

    @Override
    public void close() {
      node.close();
    }
  }

  /** Passes all on but pieces. */
  private abstract static class Tampering implements KvConnection {

    final UcxConnection inner;

    Tampering(UcxConnection inner) {
      this.inner = inner;
    }

    /** Sends a piece in its way, on the loop's thread. */
    abstract void send(PieceHeader header, byte[] data);

    @Override
    public OutgoingPiece piece(PieceHeader header, int bytes) {
      ByteBuffer data = ByteBuffer.allocate(bytes);
      return new OutgoingPiece() {
        @Override
        public ByteBuffer data() {
          return data.duplicate();
        }

        @Override
        public void send(Runnable sent) {
          Tampering.this.send(header, data.array());
          sent.run();
        }

        @Override
        public void drop() {}
      };
    }

    final void sendWhole(PieceHeader header, byte[] data) {
      OutgoingPiece piece = inner.piece(header, data.length);
      piece.data().put(data);
      piece.send(() -> {});
    }

    /** At once, on the loop's thread. */
    @Override
    public void work(Runnable task) {
      task.run();
    }

    @Override
    public void send(ByteBuf frame) {
      inner.send(frame);
    }

    @Override
    public void sendLast(ByteBuf frame) {
      inner.sendLast(frame);
    }

    @Override
    public void close() {
      inner.close();
    }

    @Override
    public String remote() {
      return inner.remote();
    }
  }

  /** Sends each piece twice, and the first of its connection again and again. */
  static final class Repeating extends Tampering {

    private PieceHeader firstHeader;
    private byte[] first;

    Repeating(UcxConnection inner) {
      super(inner);
    }

    @Override
    void send(PieceHeader header, byte[] data) {
      if (first == null) {
        firstHeader = header;
        first = data;
      }
      sendWhole(header, data);
      sendWhole(header, data);
      sendWhole(firstHeader, first);
    }
  }

  /** Sends pieces with a bit too many, or with a byte too few. */
  static final class Damaging extends Tampering {

    private final boolean shorter;

    /** What UCX reads until the connection ends. */
    private ByteBuffer memory;

    Damaging(UcxConnection inner, boolean shorter) {
      super(inner);
      this.shorter = shorter;
    }

    @Override
    void send(PieceHeader header, byte[] data) {
      if (shorter) {
        sendWhole(header, Arrays.copyOf(data, data.length - 1));
        return;
      }
      int start = KvFrames.DATA_HEADER_BYTES;
      memory = ByteBuffer.allocateDirect(start + data.length).put(start, data);
      PieceHeader right = header.withChecksum(KvFrames.checksum(ByteBuffer.wrap(data)));
      KvFrames.writePieceHeader(Unpooled.wrappedBuffer(memory).clear(), right);
      int last = start + data.length - 1;
      memory.put(last, (byte) (memory.get(last) ^ 4));
      inner
          .endpoint()
          .sendAmNonBlocking(
              UcxConnection.DATA,
              UcxUtils.getAddress(memory),
              start,
              UcxUtils.getAddress(memory) + start,
              data.length,
              UcpConstants.UCP_AM_SEND_FLAG_REPLY,
              null,
              UcxBuffers.hostMemory());
    }
  }
}
