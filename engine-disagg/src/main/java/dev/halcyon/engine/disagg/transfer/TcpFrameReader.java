package dev.halcyon.engine.disagg.transfer;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;

/**
 * Cuts what comes over a connection into frames, each behind its length (int32), and hands them to
 * a session. The bytes of a piece go straight to where they stay, for which there is memory only if
 * the session expects it; others are passed over. Used by the connection's thread alone.
 */
final class TcpFrameReader implements AutoCloseable {

  static final int LENGTH_BYTES = 4;

  private final KvSession session;
  private final TcpPieceMemory memory;
  private final int maxBytes;

  /** The length and what stands before a piece's bytes, or a whole frame of another type. */
  private final ByteBuf head =
      Unpooled.buffer(
          LENGTH_BYTES + KvFrames.DATA_HEADER_BYTES, LENGTH_BYTES + KvFrames.MAX_CONTROL_BYTES);

  /** How many bytes {@code head} is to have before anything can be decided. */
  private int wanted = LENGTH_BYTES;

  /** The current frame's length; 0 before it is known. */
  private int length;

  private PieceHeader header;
  private ByteBuf piece;
  private int passOver;

  /** The piece's memory that was given out last, to be read into. */
  private ByteBuf given;

  /**
   * @param memory for the pieces
   * @param maxBytes the longest frame that may come
   */
  TcpFrameReader(KvSession session, TcpPieceMemory memory, int maxBytes) {
    this.session = session;
    this.memory = memory;
    this.maxBytes = maxBytes;
  }

  /**
   * The memory for what is still to come of a piece, for the connection to read into and hand to
   * {@link #read}.
   *
   * @return the caller's to release; null if no piece is coming
   */
  ByteBuf rest() {
    given =
        piece == null
            ? null
            : piece.retainedSlice(piece.writerIndex(), piece.writableBytes()).setIndex(0, 0);
    return given;
  }

  /**
   * Takes all bytes that came.
   *
   * @param in any bytes, or what {@link #rest} returned last
   * @throws RuntimeException if they can't be right, or the session does not take a frame; nothing
   *     may be read after that
   */
  void read(ByteBuf in) {
    if (piece != null && in == given) {
      advance(in.readableBytes());
      return;
    }
    while (in.isReadable()) {
      if (passOver > 0) {
        int run = Math.min(passOver, in.readableBytes());
        in.skipBytes(run);
        passOver -= run;
      } else if (piece != null) {
        int run = Math.min(piece.writableBytes(), in.readableBytes());
        piece.setBytes(piece.writerIndex(), in, run);
        advance(run);
      } else {
        head.writeBytes(in, Math.min(wanted - head.readableBytes(), in.readableBytes()));
        if (head.readableBytes() == wanted) {
          decide();
        }
      }
    }
  }

  /** So many more bytes of the piece are where they stay. */
  private void advance(int bytes) {
    piece.writerIndex(piece.writerIndex() + bytes);
    if (!piece.isWritable()) {
      handOver();
    }
  }

  private void decide() {
    if (length == 0) {
      length = head.getInt(0);
      requireLength(1, maxBytes);
      wanted = LENGTH_BYTES + Math.min(length, KvFrames.DATA_HEADER_BYTES);
    } else if (head.getByte(LENGTH_BYTES) == KvFrames.DATA) {
      requireLength(KvFrames.DATA_HEADER_BYTES, maxBytes);
      beginPiece(length - KvFrames.DATA_HEADER_BYTES);
      beginFrame();
    } else if (wanted < LENGTH_BYTES + length) {
      requireLength(1, KvFrames.MAX_CONTROL_BYTES);
      wanted = LENGTH_BYTES + length;
    } else {
      session.received(head.skipBytes(LENGTH_BYTES));
      beginFrame();
    }
  }

  private void requireLength(int least, int most) {
    if (length < least || length > most) {
      throw new IllegalArgumentException("a frame of " + length + " bytes");
    }
  }

  private void beginPiece(int bytes) {
    header = KvFrames.readPieceHeader(head.skipBytes(LENGTH_BYTES + 1));
    if (session.expects(header, bytes)) {
      piece = memory.acquire(0, bytes);
    } else {
      passOver = bytes;
    }
  }

  private void beginFrame() {
    head.clear();
    length = 0;
    wanted = LENGTH_BYTES;
  }

  private void handOver() {
    ByteBuf whole = piece;
    piece = null;
    session.data(header, whole.nioBuffer(), whole::release);
  }

  /** Gives back what a piece has that never came whole. */
  @Override
  public void close() {
    if (piece != null) {
      piece.release();
      piece = null;
    }
  }
}
