package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvSink;
import dev.halcyon.engine.transfer.KvSource;
import dev.halcyon.engine.transfer.KvTransport;
import java.util.Map;
import java.util.Optional;

/**
 * Between processes and machines, through UCX: over RDMA or TCP, whichever it finds best, or as the
 * environment says ({@code UCX_TLS}, {@code UCX_NET_DEVICES}). It needs org.openucx:jucx on the
 * class path and UCX's libraries on the machine; {@link #unavailable} says whether they are there.
 * What it does is otherwise what {@link TcpTransport} does: the same handshake, token and
 * checksums. There is no TLS, so that the network has to be one's own.
 */
public final class UcxTransport implements KvTransport {

  private static final String BINDINGS = "org/openucx/jucx/NativeLibs.class";

  private final NetworkTransfers transfers;
  private final UcxNode node;

  /**
   * Opens a transport, listening if the options say so.
   *
   * @param options with {@code tls} null; {@code threads} is of no effect, there is one
   * @throws EngineException if UCX can't be used here
   * @throws KvTransferException if the address can't be listened on
   */
  public UcxTransport(NetworkOptions options) {
    this(options, Map.of());
  }

  /**
   * As above, with settings of UCX that go before those of the environment.
   *
   * @param settings by their names without the prefix UCX_, such as TLS
   */
  public UcxTransport(NetworkOptions options, Map<String, String> settings) {
    if (options.tls() != null) {
      throw new IllegalArgumentException(
          "tls must be null: UCX has none; use a TcpTransport on a network that others share");
    }
    this.transfers = new NetworkTransfers("ucx", options, this::connect);
    try {
      this.node = new UcxNode(options, settings, transfers::serve, this::endTransfers);
    } catch (KvTransferException e) {
      throw e;
    } catch (LinkageError | RuntimeException e) {
      throw new EngineException("UCX was asked for and can't be used: " + reason(e), e);
    }
    if (node.address() != null) {
      transfers.warnIfOpenToStrangers(node.address());
    }
  }

  /**
   * Why UCX can't be used here; empty if it can. It takes a good part of a second: UCX looks at all
   * of the machine's devices.
   */
  public static Optional<String> unavailable() {
    try {
      UcxLoop.probe();
      return Optional.empty();
    } catch (LinkageError | RuntimeException e) {
      return Optional.of(reason(e));
    }
  }

  private static String reason(Throwable error) {
    if (UcxTransport.class.getClassLoader().getResource(BINDINGS) == null) {
      return "org.openucx:jucx is not on the class path";
    }
    return error instanceof LinkageError
        ? "UCX's libraries can't be loaded; install UCX (libucp): " + error.getMessage()
        : error.getMessage();
  }

  private void connect(PeerAddress address, NetworkPeer peer) {
    node.connect(address, connection -> transfers.use(peer, () -> {}, connection), peer::lost);
  }

  /**
   * The port that it listens on.
   *
   * @throws IllegalStateException if it doesn't
   */
  public int port() {
    if (node.address() == null) {
      throw new IllegalStateException("this transport does not listen");
    }
    return node.address().getPort();
  }

  /** How many prompts are on offer here, or on their way here. */
  public int openTransfers() {
    return transfers.open();
  }

  /** How many registered buffers are in use. */
  int buffersInUse() {
    return node.buffersInUse();
  }

  @Override
  public KvOffer offer(KvSource source) {
    if (node.address() == null) {
      throw NetworkTransfers.notListening();
    }
    return transfers.offer(source, port());
  }

  @Override
  public KvFetch fetch(KvDescriptor descriptor, KvSink sink) {
    return transfers.fetch(descriptor, sink);
  }

  private void endTransfers() {
    transfers.shut();
    transfers.end();
  }

  /** Ends all transfers, closes all connections, and waits for its threads to end. */
  @Override
  public void close() {
    endTransfers();
    node.close();
    // What began in between and was never tried.
    transfers.end();
  }
}
