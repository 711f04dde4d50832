package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvProgress;
import dev.halcyon.engine.transfer.KvSink;
import io.netty.buffer.ByteBuf;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/**
 * The generation side's connection to one context side, shared by all transfers from there, and
 * those that are there for their pieces alone. They are made for the first of them; once one is
 * lost, all are, and the next transfer makes others.
 */
final class NetworkPeer {

  private final NetworkOptions options;
  private final Consumer<NetworkPeer> onGone;
  private final Map<UUID, Transfer> transfers = new ConcurrentHashMap<>();

  /** Transfers that were given up before there was a connection to say so. */
  private final Map<UUID, KvTransferException> cancelledEarly = new HashMap<>();

  /** Guarded by this: the connection once the handshake is done, and why there will be none. */
  private KvConnection connection;

  private KvTransferException gone;

  /** The transport that the connection leads to. */
  private UUID transport;

  /** Those for pieces alone, beside it; never changed, but exchanged by whoever holds this. */
  private volatile List<KvConnection> forPieces = List.of();

  /**
   * @param onGone called once, when no transfer may be added any more
   */
  NetworkPeer(NetworkOptions options, Consumer<NetworkPeer> onGone) {
    this.options = options;
    this.onGone = onGone;
  }

  int openTransfers() {
    return transfers.size();
  }

  /**
   * Begins a transfer, now or once the handshake is done.
   *
   * @return null if the connection is gone
   */
  KvFetch fetch(UUID id, KvSink sink) {
    Transfer transfer = new Transfer(id, sink);
    KvConnection ready;
    synchronized (this) {
      if (gone != null) {
        return null;
      }
      if (transfers.putIfAbsent(id, transfer) != null) {
        throw new KvTransferException(Reason.UNKNOWN, "The prompt is being fetched already");
      }
      ready = connection;
    }
    if (ready != null) {
      transfer.open(ready);
    }
    return transfer.pull;
  }

  /**
   * The handshake is done.
   *
   * @param reached the transport it leads to
   */
  void ready(KvConnection newConnection, UUID reached) {
    List<Transfer> waiting;
    synchronized (this) {
      connection = newConnection;
      transport = reached;
      waiting = List.copyOf(transfers.values());
      cancelledEarly.forEach((id, why) -> sendEnd(newConnection, id, why));
      cancelledEarly.clear();
    }
    waiting.forEach(transfer -> transfer.open(newConnection));
  }

  /**
   * The handshake of a connection for pieces is done.
   *
   * @return whether it is of use: not if the one for all transfers is gone, or if the address leads
   *     to several transports and this is another
   */
  synchronized boolean readyForPieces(KvConnection newConnection, UUID reached) {
    if (gone != null || !reached.equals(transport)) {
      return false;
    }
    List<KvConnection> more = new ArrayList<>(forPieces);
    more.add(newConnection);
    forPieces = List.copyOf(more);
    return true;
  }

  /** Takes no more transfers if there is none; returns whether that is so. */
  boolean retireIfIdle() {
    synchronized (this) {
      if (!transfers.isEmpty()) {
        return false;
      }
      gone = new KvTransferException(Reason.PEER_LOST, "The connection was idle and is closed");
    }
    onGone.accept(this);
    closeAll();
    return true;
  }

  /** Closes the connections, where the one that was lost leaves others. */
  private void closeAll() {
    List<KvConnection> others;
    KvConnection main;
    synchronized (this) {
      others = forPieces;
      main = connection;
    }
    if (!others.isEmpty()) {
      others.forEach(KvConnection::close);
      if (main != null) {
        main.close();
      }
    }
  }

  private static void sendEnd(KvConnection over, UUID id, KvTransferException why) {
    over.send(KvFrames.end(id, why));
  }

  /** There is no connection, or none any more. */
  void lost(KvTransferException why) {
    synchronized (this) {
      if (gone != null) {
        return;
      }
      gone = why;
    }
    onGone.accept(this);
    for (Transfer transfer : List.copyOf(transfers.values())) {
      transfers.remove(transfer.id);
      transfer.pull.failed(why);
    }
    closeAll();
  }

  /** A frame that is not DATA came after the handshake. */
  void received(byte type, ByteBuf frame) {
    UUID id = KvFrames.readId(frame);
    if (type == KvFrames.COMPUTED) {
      Transfer following = transfers.get(id);
      KvProgress progress = KvFrames.readProgress(frame);
      if (following != null) {
        following.computed(progress);
      }
      return;
    }
    if (type != KvFrames.END) {
      throw new IllegalArgumentException("a frame of type " + type);
    }
    Transfer transfer = transfers.remove(id);
    // None where it is late: the transfer has ended here.
    if (transfer != null) {
      transfer.pull.failed(KvFrames.readError(frame));
    }
  }

  /** Whether a piece that is on its way was asked for, and still is wanted. */
  boolean expects(PieceHeader header, int bytes) {
    Transfer transfer = transfers.get(header.transfer());
    return transfer != null && transfer.pull.expects(header.number(), bytes);
  }

  /** A piece came; {@code release} is called once its bytes are no longer needed. */
  void data(PieceHeader header, ByteBuffer data, Runnable release) {
    Transfer transfer = transfers.get(header.transfer());
    if (transfer == null) {
      // Late: the transfer has ended here.
      release.run();
    } else {
      transfer.data(header, data, release);
    }
  }

  /** One prompt on its way here. */
  private final class Transfer implements KvPull.Link {

    private final UUID id;
    private final KvSink sink;
    private final KvPull pull;
    private volatile KvConnection opened;

    /** Whether the context side knows whose it is, so that it may be asked over any connection. */
    private volatile boolean known;

    Transfer(UUID id, KvSink sink) {
      this.id = id;
      this.sink = sink;
      this.pull = new KvPull(sink, this, options.pieceBytes(), options.window());
    }

    /** Does nothing the second time, or once it has ended. */
    void open(KvConnection over) {
      synchronized (this) {
        if (opened != null || transfers.get(id) != this) {
          return;
        }
        opened = over;
        over.send(KvFrames.open(id, sink.firstToken(), sink.order(), sink.manifest()));
      }
      pull.start();
    }

    void computed(KvProgress progress) {
      known = true;
      pull.computed(progress);
    }

    /** Expects the piece no more before anything is done with it, so that it comes once. */
    void data(PieceHeader header, ByteBuffer data, Runnable release) {
      KvPiece piece = pull.take(header.number(), data.remaining());
      if (piece == null) {
        release.run();
      } else {
        opened.work(() -> check(header, piece, data, release));
      }
    }

    private void check(PieceHeader header, KvPiece piece, ByteBuffer data, Runnable release) {
      if (pull.hasEnded()) {
        release.run();
        return;
      }
      if (KvFrames.checksum(data.duplicate()) != header.checksum()) {
        release.run();
        pull.give(
            new KvTransferException(
                Reason.CORRUPT, "Keys and values came with a checksum that is not theirs"));
        return;
      }
      if (header.stored() && sink.order() == null) {
        release.run();
        pull.give(
            new KvTransferException(
                Reason.CORRUPT, "Keys and values came in an order that was not asked for"));
        return;
      }
      pull.write(header.stored() ? piece.asStored() : piece, data, release);
    }

    @Override
    public void request(int number, KvPiece piece) {
      over(number).send(KvFrames.read(id, number, piece));
    }

    private KvConnection over(int number) {
      List<KvConnection> others = known ? forPieces : List.of();
      int turn = number % (others.size() + 1);
      return turn == 0 ? opened : others.get(turn - 1);
    }

    @Override
    public void done() {
      transfers.remove(id);
      opened.send(KvFrames.done(id));
    }

    @Override
    public void cancel(KvTransferException why) {
      KvConnection over;
      synchronized (this) {
        transfers.remove(id);
        over = opened;
      }
      if (over == null) {
        synchronized (NetworkPeer.this) {
          over = connection;
          if (over == null && gone == null) {
            cancelledEarly.put(id, why);
          }
        }
      }
      if (over != null) {
        sendEnd(over, id, why);
      }
    }
  }
}
