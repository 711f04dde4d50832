package dev.halcyon.engine.disagg.transfer;

import java.nio.ByteBuffer;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import org.openucx.jucx.UcxException;
import org.openucx.jucx.UcxUtils;
import org.openucx.jucx.ucp.UcpContext;
import org.openucx.jucx.ucp.UcpMemory;
import org.openucx.jucx.ucp.UcpRequestParams;
import org.openucx.jucx.ucs.UcsConstants;

/**
 * Memory that pieces are sent from and received to, registered with UCX so that a network card may
 * read and write it. Buffers are kept for the next piece, up to a bound. For the loop's thread
 * alone, but for {@link #inUse}.
 *
 * <p>The memory is Java's own: an engine that still writes to a buffer after the transport is
 * closed does no harm.
 */
final class UcxBuffers {

  private final UcpContext context;
  private final KeptMemory<Buffer> kept = new KeptMemory<>();
  private final Set<UcpMemory> registrations = new HashSet<>();
  private final AtomicInteger inUse = new AtomicInteger();

  UcxBuffers(UcpContext context) {
    this.context = context;
  }

  /** A buffer of a header and a piece. */
  record Buffer(ByteBuffer memory, long address, UcpMemory registration) {

    ByteBuffer header() {
      return memory.slice(0, KvFrames.DATA_HEADER_BYTES);
    }

    ByteBuffer data(int bytes) {
      return memory.slice(KeptMemory.HEADER_ROOM, bytes);
    }

    long dataAddress() {
      return address + KeptMemory.HEADER_ROOM;
    }

    UcpRequestParams requestParams() {
      UcpRequestParams params = hostMemory();
      return registration == null ? params : params.setMemoryHandle(registration);
    }
  }

  /** The kind of memory is always said: what stands for an unknown one differs by UCX's version. */
  static UcpRequestParams hostMemory() {
    return new UcpRequestParams().setMemoryType(UcsConstants.MEMORY_TYPE.UCS_MEMORY_TYPE_HOST);
  }

  /** How many are with somebody. */
  int inUse() {
    return inUse.get();
  }

  /**
   * A buffer for a piece.
   *
   * @param bytes at most {@link NetworkOptions#MAX_PIECE_BYTES}
   */
  Buffer acquire(int bytes) {
    int size = KeptMemory.sizeFor(bytes);
    Buffer buffer = kept.take(size);
    if (buffer == null) {
      buffer = create(size);
    }
    inUse.incrementAndGet();
    return buffer;
  }

  private Buffer create(int size) {
    ByteBuffer memory = KeptMemory.create(size);
    UcpMemory registration = null;
    try {
      registration = context.registerMemory(memory);
      registrations.add(registration);
    } catch (UcxException e) {
      // A limit of locked memory, for one: UCX then copies through memory of its own.
    }
    return new Buffer(memory, UcxUtils.getAddress(memory), registration);
  }

  void release(Buffer buffer) {
    inUse.decrementAndGet();
    boolean isKept = kept.keep(buffer.memory.capacity(), buffer);
    if (!isKept && buffer.registration != null) {
      registrations.remove(buffer.registration);
      buffer.registration.close();
    }
  }

  /** Takes all registrations back, those of buffers in use too. */
  void close() {
    registrations.forEach(UcpMemory::close);
    registrations.clear();
    kept.close();
  }
}
