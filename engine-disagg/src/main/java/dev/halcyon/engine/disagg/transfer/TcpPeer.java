package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvSink;
import io.netty.buffer.ByteBuf;
import io.netty.channel.Channel;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/**
 * The generation side's connection to one context side, shared by all transfers from there. It is
 * made for the first of them; once it is lost, the next transfer makes another.
 */
final class TcpPeer {

  private final TcpOptions options;
  private final Consumer<TcpPeer> onGone;
  private final Map<UUID, Transfer> transfers = new ConcurrentHashMap<>();

  /** Transfers that were given up before there was a connection to say so. */
  private final Map<UUID, KvTransferException> cancelledEarly = new HashMap<>();

  /** Guarded by this: the channel once the handshake is done, and why there will be none. */
  private Channel channel;

  private KvTransferException gone;

  /**
   * @param onGone called once, when no transfer may be added any more
   */
  TcpPeer(TcpOptions options, Consumer<TcpPeer> onGone) {
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
    Channel ready;
    synchronized (this) {
      if (gone != null) {
        return null;
      }
      if (transfers.putIfAbsent(id, transfer) != null) {
        throw new KvTransferException(Reason.UNKNOWN, "The prompt is being fetched already");
      }
      ready = channel;
    }
    if (ready != null) {
      transfer.open(ready);
    }
    return transfer.pull;
  }

  /** The handshake is done. */
  void ready(Channel newChannel) {
    List<Transfer> waiting;
    synchronized (this) {
      channel = newChannel;
      waiting = List.copyOf(transfers.values());
      cancelledEarly.forEach((id, why) -> sendEnd(newChannel, id, why));
      cancelledEarly.clear();
    }
    waiting.forEach(transfer -> transfer.open(newChannel));
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
    return true;
  }

  private static void sendEnd(Channel over, UUID id, KvTransferException why) {
    over.writeAndFlush(TcpFrames.end(over.alloc(), id, why));
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
  }

  /** A frame came after the handshake. */
  void received(byte type, ByteBuf frame) {
    Transfer transfer = transfers.get(TcpFrames.readId(frame));
    if (transfer == null) {
      // Late: the transfer has ended here.
      return;
    }
    switch (type) {
      case TcpFrames.DATA -> transfer.data(frame);
      case TcpFrames.END -> {
        transfers.remove(transfer.id);
        transfer.pull.failed(TcpFrames.readError(frame));
      }
      default -> throw new IllegalArgumentException("a frame of type " + type);
    }
  }

  /** One prompt on its way here. */
  private final class Transfer implements KvPull.Link {

    private final UUID id;
    private final KvSink sink;
    private final KvPull pull;
    private volatile Channel opened;

    Transfer(UUID id, KvSink sink) {
      this.id = id;
      this.sink = sink;
      this.pull = new KvPull(sink, this, options.pieceBytes(), options.window());
    }

    /** Does nothing the second time, or once it has ended. */
    void open(Channel over) {
      synchronized (this) {
        if (opened != null || transfers.get(id) != this) {
          return;
        }
        opened = over;
        send(TcpFrames.open(over.alloc(), id, sink.firstToken(), sink.manifest()));
      }
      pull.start();
    }

    void data(ByteBuf frame) {
      int number = frame.readInt();
      int checksum = frame.readInt();
      if (TcpFrames.checksum(frame.nioBuffer()) != checksum) {
        pull.give(
            new KvTransferException(
                Reason.CORRUPT, "Keys and values came with a checksum that is not theirs"));
        return;
      }
      pull.arrived(number, frame.retain().nioBuffer(), frame::release);
    }

    @Override
    public void request(int number, KvPiece piece) {
      send(TcpFrames.read(opened.alloc(), id, number, piece));
    }

    @Override
    public void done() {
      transfers.remove(id);
      send(TcpFrames.done(opened.alloc(), id));
    }

    @Override
    public void cancel(KvTransferException why) {
      Channel over;
      synchronized (this) {
        transfers.remove(id);
        over = opened;
      }
      if (over == null) {
        synchronized (TcpPeer.this) {
          over = channel;
          if (over == null && gone == null) {
            cancelledEarly.put(id, why);
          }
        }
      }
      if (over != null) {
        sendEnd(over, id, why);
      }
    }

    private void send(ByteBuf frame) {
      opened.writeAndFlush(frame);
    }
  }
}
