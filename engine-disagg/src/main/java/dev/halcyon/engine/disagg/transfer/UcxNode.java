package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import io.netty.util.concurrent.DefaultThreadFactory;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import org.openucx.jucx.UcxException;
import org.openucx.jucx.UcxUtils;
import org.openucx.jucx.ucp.UcpAmData;
import org.openucx.jucx.ucp.UcpConnectionRequest;
import org.openucx.jucx.ucp.UcpEndpoint;
import org.openucx.jucx.ucp.UcpEndpointParams;
import org.openucx.jucx.ucp.UcpListener;
import org.openucx.jucx.ucp.UcpListenerParams;
import org.openucx.jucx.ucs.UcsConstants;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What {@link UcxTransport} has of UCX: a listener, the connections by their endpoints, and the
 * handlers of what comes. Apart from the transport, which has to load where UCX is missing.
 */
final class UcxNode implements UcxLoop.Lifecycle {

  private static final Logger LOG = LoggerFactory.getLogger(UcxNode.class);
  private static final int IDLE_SECONDS = 60;

  private final NetworkOptions options;
  private final Function<KvConnection, KvSession> serve;
  private final Runnable onFailure;
  private final UcxLoop loop;
  private final UcxBuffers buffers;
  private final PieceWorkers workers;

  /** Keeps time and looks names up, neither of which the loop's thread can wait for. */
  private final ScheduledThreadPoolExecutor helper;

  /** Null, as is its address, where it doesn't listen. */
  private final UcpListener listener;

  private final InetSocketAddress address;

  /** By the endpoint's native id; for the loop's thread alone. */
  private final Map<Long, UcxConnection> connections = new HashMap<>();

  private boolean closing;

  /**
   * @param serve begins the session of a connection that another side made
   * @param onFailure called when UCX fails, before the connections end
   * @throws LinkageError if UCX can't be loaded
   * @throws UcxException if it can't be used
   * @throws KvTransferException if the address can't be listened on
   */
  UcxNode(
      NetworkOptions options,
      Map<String, String> settings,
      Function<KvConnection, KvSession> serve,
      Runnable onFailure) {
    this.options = options;
    this.serve = serve;
    this.onFailure = onFailure;
    this.loop = new UcxLoop(settings, this);
    this.buffers = new UcxBuffers(loop.context());
    this.workers = new PieceWorkers(options.workers());
    boolean done = false;
    try {
      loop.worker().setAmRecvHandler(UcxConnection.CONTROL, this::control);
      loop.worker().setAmRecvHandler(UcxConnection.DATA, this::data);
      this.listener = options.listen() ? listen() : null;
      this.address = listener == null ? null : listener.getAddress();
      done = true;
    } finally {
      if (!done) {
        loop.abandon();
      }
    }
    this.helper =
        new ScheduledThreadPoolExecutor(1, new DefaultThreadFactory("halcyon-ucx-helper", true));
    helper.setRemoveOnCancelPolicy(true);
    helper.scheduleWithFixedDelay(
        () ->
            loop.execute(() -> List.copyOf(connections.values()).forEach(UcxConnection::checkIdle)),
        IDLE_SECONDS,
        IDLE_SECONDS,
        TimeUnit.SECONDS);
    loop.start();
  }

  private UcpListener listen() {
    String where = options.host() + ":" + options.port();
    InetSocketAddress address = new InetSocketAddress(options.host(), options.port());
    if (address.isUnresolved()) {
      throw new KvTransferException(
          Reason.PEER_LOST, "Can't listen on " + where + ": there is no host of this name");
    }
    try {
      return loop.worker()
          .newListener(
              new UcpListenerParams()
                  .setSockAddr(address)
                  .setConnectionHandler(request -> loop.execute(() -> accept(request))));
    } catch (UcxException e) {
      throw new KvTransferException(
          Reason.PEER_LOST, "Can't listen on " + where + ": " + e.getMessage(), e);
    }
  }

  /** Where it listens; null if it doesn't. */
  InetSocketAddress address() {
    return address;
  }

  /** How many registered buffers are in use. */
  int buffersInUse() {
    return buffers.inUse();
  }

  private void accept(UcpConnectionRequest request) {
    String remote = String.valueOf(request.getClientAddress());
    try {
      if (closing) {
        request.reject();
      } else {
        open(new UcpEndpointParams().setConnectionRequest(request), serve, remote);
      }
    } catch (UcxException e) {
      LOG.warn("The connection of {} failed: {}", remote, e.getMessage());
    }
  }

  /**
   * Begins to connect; may be called by any thread.
   *
   * @param onError told if there is no connection and no session
   */
  void connect(
      PeerAddress peer,
      Function<KvConnection, KvSession> session,
      Consumer<KvTransferException> onError) {
    try {
      helper.execute(
          () -> {
            InetSocketAddress resolved = new InetSocketAddress(peer.host(), peer.port());
            if (resolved.isUnresolved()) {
              onError.accept(cantConnect(peer, "there is no host of this name", null));
            } else if (!loop.execute(() -> connectNow(peer, resolved, session, onError))) {
              onError.accept(NetworkTransfers.closedError());
            }
          });
    } catch (RejectedExecutionException e) {
      onError.accept(NetworkTransfers.closedError());
    }
  }

  private void connectNow(
      PeerAddress peer,
      InetSocketAddress resolved,
      Function<KvConnection, KvSession> session,
      Consumer<KvTransferException> onError) {
    if (closing) {
      onError.accept(NetworkTransfers.closedError());
      return;
    }
    try {
      open(new UcpEndpointParams().setSocketAddress(resolved), session, peer.peer());
    } catch (UcxException e) {
      onError.accept(cantConnect(peer, e.getMessage(), e));
    }
  }

  private static KvTransferException cantConnect(PeerAddress peer, String why, Exception cause) {
    return new KvTransferException(
        Reason.PEER_LOST, "Can't connect to " + peer.peer() + ": " + why, cause);
  }

  private void open(
      UcpEndpointParams params, Function<KvConnection, KvSession> session, String remote) {
    UcxConnection connection =
        new UcxConnection(
            loop,
            buffers,
            workers,
            session,
            remote,
            closed -> connections.remove(closed.endpoint().getNativeId()));
    UcpEndpoint endpoint =
        loop.worker()
            .newEndpoint(
                params
                    .setPeerErrorHandlingMode()
                    .setErrorHandler(
                        (failed, status, message) ->
                            connection.fail(new UcxException(message, status))));
    connections.put(endpoint.getNativeId(), connection);
    connection.opened(endpoint);
    helper.schedule(
        () -> loop.execute(connection::handshakeDue),
        options.connectTimeout().toNanos(),
        TimeUnit.NANOSECONDS);
  }

  /** UCX's handlers must not throw; connections don't. */
  private int control(long header, long headerBytes, UcpAmData message, UcpEndpoint from) {
    UcxConnection connection = from == null ? null : connections.get(from.getNativeId());
    if (connection != null) {
      connection.receiveControl(message);
    }
    return UcsConstants.STATUS.UCS_OK;
  }

  private int data(long header, long headerBytes, UcpAmData message, UcpEndpoint from) {
    UcxConnection connection = from == null ? null : connections.get(from.getNativeId());
    if (connection == null) {
      return UcsConstants.STATUS.UCS_OK;
    }
    ByteBuffer view =
        headerBytes == 0 ? ByteBuffer.allocate(0) : UcxUtils.getByteBufferView(header, headerBytes);
    return connection.receiveData(view, message)
        ? UcsConstants.STATUS.UCS_INPROGRESS
        : UcsConstants.STATUS.UCS_OK;
  }

  @Override
  public void failed(Throwable cause) {
    LOG.error("UCX failed, and with it its transport", cause);
    onFailure.run();
  }

  @Override
  public void closing() {
    closing = true;
    List.copyOf(connections.values()).forEach(UcxConnection::closeFlushed);
  }

  /**
   * UCX touches its listener when a connection that it let in speaks first, be the listener gone by
   * then. So it goes last, right before the worker, and connections are rejected until then.
   */
  @Override
  public void ending() {
    if (listener != null) {
      listener.close();
    }
  }

  @Override
  public void ended() {
    buffers.close();
  }

  /** Closes all connections, frees UCX's memory, and waits for the threads. */
  void close() {
    try {
      // First the loop, which gives the helper work.
      loop.close();
      helper.shutdownNow();
      helper.awaitTermination(1, TimeUnit.SECONDS);
      // Last, as connections give them work. What still waits finds its transfer ended.
      workers.close();
    } catch (InterruptedException e) {
      helper.shutdownNow();
      Thread.currentThread().interrupt();
    }
  }
}
