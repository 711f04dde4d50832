package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.disagg.transfer.UcxBuffers.Buffer;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.nio.ByteBuffer;
import java.util.HashSet;
import java.util.Set;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import org.openucx.jucx.UcxCallback;
import org.openucx.jucx.UcxException;
import org.openucx.jucx.UcxUtils;
import org.openucx.jucx.ucp.UcpAmData;
import org.openucx.jucx.ucp.UcpConstants;
import org.openucx.jucx.ucp.UcpEndpoint;
import org.openucx.jucx.ucp.UcpRequest;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A connection over an endpoint of UCX. Frames are active messages: of id {@link #CONTROL} with all
 * of the frame as data, of id {@link #DATA} with a piece as data, behind a header as in {@link
 * KvFrames}. Methods that are not {@link KvConnection}'s are for the loop's thread.
 */
final class UcxConnection implements KvConnection {

  static final int CONTROL = 1;
  static final int DATA = 2;

  private static final Logger LOG = LoggerFactory.getLogger(UcxConnection.class);

  private final UcxLoop loop;
  private final UcxBuffers buffers;
  private final PieceWorkers workers;
  private final KvSession session;
  private final String remote;
  private final Consumer<UcxConnection> onClosed;

  /** Pieces that are being received: one that comes twice is not received twice. */
  private final Set<Receiving> receiving = new HashSet<>();

  private UcpEndpoint endpoint;
  private boolean closed;

  /** It is about to be closed: nothing that comes is looked at any more. */
  private boolean failed;

  private boolean used = true;

  private record Receiving(UUID transfer, int number) {}

  /**
   * @param workers for what is done with pieces
   * @param onClosed told once that there is no more of it
   */
  UcxConnection(
      UcxLoop loop,
      UcxBuffers buffers,
      PieceWorkers workers,
      Function<KvConnection, KvSession> session,
      String remote,
      Consumer<UcxConnection> onClosed) {
    this.loop = loop;
    this.buffers = buffers;
    this.workers = workers;
    this.remote = remote;
    this.onClosed = onClosed;
    this.session = session.apply(this);
  }

  /** The endpoint exists; frames may be sent though the other side may not be reached yet. */
  void opened(UcpEndpoint opened) {
    endpoint = opened;
    session.opened();
  }

  UcpEndpoint endpoint() {
    return endpoint;
  }

  void handshakeDue() {
    if (!closed) {
      session.handshakeDue();
    }
  }

  /** Tells the session if nothing came or went since the last call. */
  void checkIdle() {
    if (!closed && !used) {
      session.idle();
    }
    used = false;
  }

  /** A frame that is not DATA came. */
  void receiveControl(UcpAmData message) {
    if (closed || failed) {
      return;
    }
    used = true;
    try {
      if (!message.isDataValid() || message.getLength() > KvFrames.MAX_CONTROL_BYTES) {
        throw new IllegalArgumentException("a frame of " + message.getLength() + " bytes");
      }
      session.received(Unpooled.wrappedBuffer(view(message)));
    } catch (RuntimeException | Error e) {
      fail(e);
    }
  }

  /**
   * A piece came, or is on offer at the other side.
   *
   * @return whether UCX is to keep the message: it is being received
   */
  boolean receiveData(ByteBuffer header, UcpAmData message) {
    if (closed || failed) {
      return false;
    }
    used = true;
    try {
      ByteBuf frame = Unpooled.wrappedBuffer(header);
      if (frame.readableBytes() != KvFrames.DATA_HEADER_BYTES
          || frame.readByte() != KvFrames.DATA
          || message.getLength() > NetworkOptions.MAX_PIECE_BYTES) {
        throw new IllegalArgumentException("a piece of " + message.getLength() + " bytes");
      }
      PieceHeader piece = KvFrames.readPieceHeader(frame);
      int bytes = (int) message.getLength();
      if (!session.expects(piece, bytes)) {
        return false;
      }
      if (message.isDataValid()) {
        // UCX's memory may be gone before an engine has read it; and what comes so is small.
        Buffer buffer = buffers.acquire(bytes);
        ByteBuffer data = buffer.data(bytes);
        data.duplicate().put(view(message));
        session.data(piece, data, () -> giveBack(buffer));
        return false;
      }
      return receive(piece, bytes, message);
    } catch (RuntimeException | Error e) {
      fail(e);
      return false;
    }
  }

  private boolean receive(PieceHeader piece, int bytes, UcpAmData message) {
    Receiving key = new Receiving(piece.transfer(), piece.number());
    if (!receiving.add(key)) {
      return false;
    }
    Buffer buffer = buffers.acquire(bytes);
    Outcome outcome = new Outcome();
    UcpRequest request;
    try {
      request =
          loop.worker()
              .recvAmDataNonBlocking(
                  message.getDataHandle(),
                  buffer.dataAddress(),
                  bytes,
                  outcome,
                  buffer.requestParams());
    } catch (UcxException e) {
      receiving.remove(key);
      buffers.release(buffer);
      throw e;
    }
    loop.whenComplete(
        request,
        () -> {
          receiving.remove(key);
          if (closed) {
            buffers.release(buffer);
          } else if (outcome.error != null) {
            buffers.release(buffer);
            fail(new UcxException(outcome.error));
          } else {
            hand(piece, buffer, bytes);
          }
        });
    return true;
  }

  private void hand(PieceHeader piece, Buffer buffer, int bytes) {
    try {
      session.data(piece, buffer.data(bytes), () -> giveBack(buffer));
    } catch (RuntimeException | Error e) {
      fail(e);
    }
  }

  /** Only noted here: what UCX calls must not throw. */
  private static final class Outcome extends UcxCallback {

    private String error;

    @Override
    public void onError(int status, String message) {
      error = message;
    }
  }

  private static ByteBuffer view(UcpAmData message) {
    return UcxUtils.getByteBufferView(message.getDataAddress(), message.getLength());
  }

  private void giveBack(Buffer buffer) {
    // False once the loop has ended: the pool is gone, and the garbage collector takes the buffer.
    loop.execute(() -> buffers.release(buffer));
  }

  @Override
  public void send(ByteBuf frame) {
    if (!loop.execute(() -> sendNow(frame))) {
      frame.release();
    }
  }

  private void sendNow(ByteBuf frame) {
    if (closed) {
      frame.release();
      return;
    }
    used = true;
    try {
      UcpRequest request =
          endpoint.sendAmNonBlocking(
              CONTROL,
              0,
              0,
              UcxUtils.getAddress(frame.nioBuffer()),
              frame.readableBytes(),
              UcpConstants.UCP_AM_SEND_FLAG_REPLY | UcpConstants.UCP_AM_SEND_FLAG_EAGER,
              null,
              UcxBuffers.hostMemory());
      loop.whenComplete(request, frame::release);
    } catch (UcxException e) {
      frame.release();
      fail(e);
    }
  }

  /** An endpoint that is closed may lose what was sent last: here it stays until it is due. */
  @Override
  public void sendLast(ByteBuf frame) {
    send(frame);
  }

  @Override
  public OutgoingPiece piece(PieceHeader header, int bytes) {
    return new Piece(header, buffers.acquire(bytes), bytes);
  }

  @Override
  public void work(Runnable task) {
    workers.execute(task, loop::run);
  }

  @Override
  public void close() {
    loop.execute(() -> closeNow(null));
  }

  @Override
  public String remote() {
    return remote;
  }

  /** Ends the connection for a reason of this side, or since UCX says that it has ended. */
  void fail(Throwable cause) {
    if (!closed && !failed) {
      failed = true;
      LOG.debug("Closing the connection with {}: {}", remote, cause.toString());
      // Not at once: UCX may be calling.
      loop.execute(() -> closeNow(cause));
    }
  }

  private void closeNow(Throwable cause) {
    if (markClosed(cause)) {
      end(endpoint::closeNonBlockingForce);
    }
  }

  /** Closes it once what was sent has left. */
  void closeFlushed() {
    if (markClosed(null)) {
      end(endpoint::closeNonBlockingFlush);
    }
  }

  private boolean markClosed(Throwable cause) {
    if (closed) {
      return false;
    }
    closed = true;
    onClosed.accept(this);
    session.lost(cause);
    return true;
  }

  private void end(Supplier<UcpRequest> closing) {
    try {
      loop.whenComplete(closing.get(), () -> {});
    } catch (UcxException e) {
      LOG.debug("An endpoint did not close: {}", e.getMessage());
    }
  }

  /** A piece in a registered buffer. */
  private final class Piece implements OutgoingPiece {

    private final PieceHeader header;
    private final Buffer buffer;
    private final int bytes;

    Piece(PieceHeader header, Buffer buffer, int bytes) {
      this.header = header;
      this.buffer = buffer;
      this.bytes = bytes;
    }

    @Override
    public ByteBuffer data() {
      return buffer.data(bytes);
    }

    @Override
    public void send(Runnable sent) {
      work(
          () -> {
            complete();
            // Not at once: UCX may be calling.
            if (!loop.execute(() -> sendNow(sent))) {
              sent.run();
            }
          });
    }

    private void complete() {
      PieceHeader whole = header.withChecksum(KvFrames.checksum(data()));
      KvFrames.writePieceHeader(Unpooled.wrappedBuffer(buffer.header()).clear(), whole);
    }

    private void sendNow(Runnable sent) {
      if (closed) {
        end(sent);
        return;
      }
      used = true;
      try {
        UcpRequest request =
            endpoint.sendAmNonBlocking(
                DATA,
                buffer.address(),
                KvFrames.DATA_HEADER_BYTES,
                buffer.dataAddress(),
                bytes,
                UcpConstants.UCP_AM_SEND_FLAG_REPLY,
                null,
                buffer.requestParams());
        loop.whenComplete(request, () -> end(sent));
      } catch (UcxException e) {
        end(sent);
        fail(e);
      }
    }

    private void end(Runnable sent) {
      buffers.release(buffer);
      sent.run();
    }

    @Override
    public void drop() {
      giveBack(buffer);
    }
  }
}
