package dev.halcyon.engine.disagg.transfer;

import io.netty.buffer.ByteBuf;
import java.nio.ByteBuffer;

/**
 * A connection between two transports. It carries frames both ways, in order. All methods may be
 * called by any thread and do not block; nothing is sent once it is closed.
 */
interface KvConnection {

  /** Sends a frame of {@link KvFrames} that is not DATA, and releases it. */
  void send(ByteBuf frame);

  /** Sends a frame, and closes the connection once the peer may have read it. */
  void sendLast(ByteBuf frame);

  /** Room for a piece that is to be sent. For the connection's thread alone. */
  OutgoingPiece piece(PieceHeader header, int bytes);

  /**
   * Has a task run that is work on a piece, not on the connection: by a thread of the transport's
   * that may be another than the connection's. A task runs always, late ones on the caller's thread
   * once the transport is closed, and must not throw.
   */
  void work(Runnable task);

  /** Closes it; its session hears of that. */
  void close();

  /** Who is on the other side, for messages. */
  String remote();

  /** A piece before it is sent. Ends with one call, of either method. */
  interface OutgoingPiece {

    /** Where its bytes go. */
    ByteBuffer data();

    /**
     * Sends it with its checksum, which is not the caller's work.
     *
     * @param sent called once when its memory is no longer in use
     */
    void send(Runnable sent);

    /** Gives its memory back. */
    void drop();
  }
}
