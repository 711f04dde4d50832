package dev.halcyon.engine.disagg.transfer;

import io.netty.buffer.ByteBuf;
import java.nio.ByteBuffer;

/**
 * One side of the protocol of {@link KvFrames} over one connection. All methods are called by the
 * connection's thread. What they throw for a frame that can't be right ends the connection.
 */
interface KvSession {

  /** The connection is there. */
  void opened();

  /** A frame other than DATA came: its type and its content. It stays the caller's. */
  void received(ByteBuf frame);

  /** Whether a piece that is on its way was asked for, and still is wanted. */
  boolean expects(PieceHeader header, int bytes);

  /**
   * A piece came.
   *
   * @param release called exactly once, when the bytes are no longer needed
   */
  void data(PieceHeader header, ByteBuffer data, Runnable release);

  /** The time for the handshake is over. */
  void handshakeDue();

  /** Nothing went over the connection for a while. */
  void idle();

  /** The connection is closed, or failed; a call after the first does nothing. */
  void lost(Throwable cause);
}
