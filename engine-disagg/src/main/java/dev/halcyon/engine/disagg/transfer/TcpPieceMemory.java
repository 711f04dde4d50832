package dev.halcyon.engine.disagg.transfer;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.UnpooledByteBufAllocator;
import io.netty.buffer.UnpooledDirectByteBuf;
import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Memory that pieces are sent from and received to over TCP. Netty's own allocator keeps none for
 * buffers as large as a usual piece with its header. Safe for use by several threads.
 */
final class TcpPieceMemory implements AutoCloseable {

  private final KeptMemory<ByteBuffer> kept = new KeptMemory<>();
  private final AtomicInteger inUse = new AtomicInteger();

  /** How many buffers are with somebody. */
  int inUse() {
    return inUse.get();
  }

  /**
   * A buffer whose memory is used again once it is released.
   *
   * @param header bytes before the piece's, at most {@link KeptMemory#HEADER_ROOM}
   * @param bytes the piece's, at most {@link NetworkOptions#MAX_PIECE_BYTES}
   * @return of {@code header + bytes} bytes, none of them written; the caller's to release
   */
  ByteBuf acquire(int header, int bytes) {
    int size = KeptMemory.sizeFor(bytes);
    ByteBuffer memory = kept.take(size);
    if (memory == null) {
      memory = KeptMemory.create(size);
    }
    inUse.incrementAndGet();
    return new Buffer(memory, header, bytes);
  }

  /** What is given back from now on goes to Java's garbage collector. */
  @Override
  public void close() {
    kept.close();
  }

  /** Counts its references as any of Netty's does, and gives its memory back at the last. */
  private final class Buffer extends UnpooledDirectByteBuf {

    private final ByteBuffer memory;

    Buffer(ByteBuffer memory, int header, int bytes) {
      super(
          UnpooledByteBufAllocator.DEFAULT,
          memory.slice(KeptMemory.HEADER_ROOM - header, header + bytes),
          header + bytes);
      this.memory = memory;
      clear();
    }

    @Override
    protected void deallocate() {
      super.deallocate();
      inUse.decrementAndGet();
      kept.keep(memory.capacity(), memory);
    }
  }
}
