package dev.halcyon.engine.disagg.transfer;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufAllocator;
import io.netty.channel.DefaultMaxMessagesRecvByteBufAllocator;
import java.util.function.Supplier;

/**
 * What a connection without TLS reads into: the memory of the piece that is coming, so that its
 * bytes are copied by nobody but the system, or a small buffer where there is none.
 */
final class TcpReads extends DefaultMaxMessagesRecvByteBufAllocator {

  /** For what stands before a piece; as much of the piece itself is copied. */
  private static final int BETWEEN_BYTES = 1 << 13;

  /** Before other connections of the thread have their turn. */
  private static final int MOST_READS = 16;

  private final Supplier<ByteBuf> rest;

  /**
   * @param rest as {@link TcpFrameReader#rest}
   */
  TcpReads(Supplier<ByteBuf> rest) {
    super(MOST_READS);
    this.rest = rest;
  }

  @Override
  public ExtendedHandle newHandle() {
    return new MaxMessageHandle() {
      @Override
      public ByteBuf allocate(ByteBufAllocator alloc) {
        ByteBuf piece = rest.get();
        return piece != null ? piece : super.allocate(alloc);
      }

      @Override
      public int guess() {
        return BETWEEN_BYTES;
      }
    };
  }
}
