package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvSink;
import dev.halcyon.engine.transfer.KvSource;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;
import java.util.function.BiPredicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What a transport between processes has on offer and on its way, whatever carries its connections.
 */
final class NetworkTransfers {

  private static final Logger LOG = LoggerFactory.getLogger(NetworkTransfers.class);

  private final String scheme;
  private final NetworkOptions options;
  private final SharedToken token;
  private final UUID self = UUID.randomUUID();
  private final BiConsumer<PeerAddress, NetworkPeer> connector;
  private final Map<UUID, NetworkOffer> offers = new ConcurrentHashMap<>();
  private final Map<String, NetworkPeer> peers = new ConcurrentHashMap<>();
  private volatile boolean closed;

  /**
   * @param scheme what its descriptors begin with
   * @param connector begins to connect to a peer; must not block
   */
  NetworkTransfers(
      String scheme, NetworkOptions options, BiConsumer<PeerAddress, NetworkPeer> connector) {
    this.scheme = scheme;
    this.options = options;
    this.token = new SharedToken(options.token());
    this.connector = connector;
  }

  /** The context side of a new connection. */
  KvSession serve(KvConnection connection) {
    return new ContextSession(self, offers, token, connection);
  }

  /**
   * The generation side of a new connection, for all transfers from a peer.
   *
   * @param afterwards run once its handshake is done
   */
  KvSession use(NetworkPeer peer, Runnable afterwards, KvConnection connection) {
    BiPredicate<KvConnection, UUID> onReady =
        (ready, transport) -> {
          peer.ready(ready, transport);
          afterwards.run();
          return true;
        };
    return new GenerationSession(peer, onReady, peer::lost, token, connection);
  }

  /** The generation side of a new connection that is one more for pieces of these transfers. */
  KvSession useForPieces(NetworkPeer peer, KvConnection connection) {
    return new GenerationSession(
        peer, peer::readyForPieces, NetworkTransfers::doWithout, token, connection);
  }

  /** Transfers have the connection that is there for all of them. */
  static void doWithout(KvTransferException why) {
    LOG.debug("One connection less for pieces: {}", why.getMessage());
  }

  /** How many prompts are on offer here, or on their way here. */
  int open() {
    return offers.size() + peers.values().stream().mapToInt(NetworkPeer::openTransfers).sum();
  }

  /**
   * Offers a prompt.
   *
   * @param port the one listened on
   */
  KvOffer offer(KvSource source, int port) {
    String host = options.advertisedHost() != null ? options.advertisedHost() : options.host();
    int advertised = options.advertisedPort() != 0 ? options.advertisedPort() : port;
    PeerAddress address = new PeerAddress(scheme, host, advertised, UUID.randomUUID());
    NetworkOffer offer = new NetworkOffer(address, source, offers);
    offers.put(address.transfer(), offer);
    if (closed && offers.remove(address.transfer(), offer)) {
      throw closedError();
    }
    return offer;
  }

  KvFetch fetch(KvDescriptor descriptor, KvSink sink) {
    PeerAddress address = PeerAddress.of(scheme, descriptor);
    while (true) {
      if (closed) {
        throw closedError();
      }
      KvFetch fetch = fetch(address, sink);
      // Null where the connection was lost just now: another is made.
      if (fetch != null) {
        return fetch;
      }
    }
  }

  private KvFetch fetch(PeerAddress address, KvSink sink) {
    boolean[] isNew = {false};
    NetworkPeer peer =
        peers.computeIfAbsent(
            address.peer(),
            key -> {
              isNew[0] = true;
              return new NetworkPeer(options, gone -> peers.remove(key, gone));
            });
    try {
      return peer.fetch(address.transfer(), sink);
    } finally {
      // Last, so that the transfer hears of a connection that fails at once.
      if (isNew[0]) {
        connector.accept(address, peer);
      }
    }
  }

  /** One log line where a machine that is not this one may ask for prompts. */
  void warnIfOpenToStrangers(InetSocketAddress listening) {
    if (!listening.getAddress().isLoopbackAddress() && options.token() == null) {
      LOG.warn(
          "Listening for KV transfers on {} without a token: any machine that reaches it may ask",
          listening);
    }
  }

  /** From now on nothing begins. */
  void shut() {
    closed = true;
  }

  /** Ends all transfers, and says so to the other sides. */
  void end() {
    List.copyOf(offers.values()).forEach(offer -> offer.fail(closedError()));
    List.copyOf(peers.values()).forEach(peer -> peer.lost(closedError()));
  }

  static KvTransferException closedError() {
    return new KvTransferException(Reason.CLOSED, "The transport is closed");
  }

  static KvTransferException notListening() {
    return new KvTransferException(
        Reason.REFUSED, "This transport does not listen, so it can't offer prompts");
  }
}
