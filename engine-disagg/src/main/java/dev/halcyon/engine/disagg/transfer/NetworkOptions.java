package dev.halcyon.engine.disagg.transfer;

import java.time.Duration;
import java.util.Objects;
import java.util.Set;

/**
 * How a {@link TcpTransport} or a {@link UcxTransport} listens and connects. Immutable; {@link
 * #builder} has the defaults.
 *
 * @param listen whether prompts can be offered; one that only fetches needs no port
 * @param host the address to listen on
 * @param port the port to listen on; 0 for any that is free
 * @param advertisedHost the name under which others reach this one; null for {@code host}
 * @param advertisedPort the port under which others reach this one; 0 for the one listened on
 * @param token a secret that both sides know, or null
 * @param tls or null for connections in the clear, the only ones that UCX has
 * @param connectTimeout how long a connection may take, its handshake included
 * @param pieceBytes the size of the pieces that are fetched
 * @param window how many pieces of a prompt may be on their way at once
 * @param threads threads for connections, of TCP, each of which has one of them
 * @param connections how many are made to another transport to fetch from it, of TCP: a prompt's
 *     pieces are asked for over all of them
 * @param workers threads for what is to be done with pieces beside sending and receiving them:
 *     reading them from a cache where that may be done by any thread, checksums, handing them to an
 *     engine; with 0, connections' threads do it
 */
public record NetworkOptions(
    boolean listen,
    String host,
    int port,
    String advertisedHost,
    int advertisedPort,
    String token,
    TcpTls tls,
    Duration connectTimeout,
    int pieceBytes,
    int window,
    int threads,
    int connections,
    int workers) {

  /** The largest piece that a peer may ask for. */
  static final int MAX_PIECE_BYTES = 1 << 25;

  /** The most pieces of a prompt that a peer may ask for at once. */
  static final int MAX_WINDOW = 64;

  private static final int MAX_CONNECTIONS = 64;

  /** With fewer processors, threads only take turns. */
  private static final int PROCESSORS_PER_THREAD = 4;

  private static final int MOST_THREADS_UNASKED = 4;

  private static final int LEAST_THREADS_UNASKED = 2;

  private static final Set<String> WILDCARDS = Set.of("0.0.0.0", "::", "[::]");

  public NetworkOptions {
    Objects.requireNonNull(host, "host");
    requireRange("port", port, 0, 65535);
    requireRange("advertisedPort", advertisedPort, 0, 65535);
    requireRange("pieceBytes", pieceBytes, 1, MAX_PIECE_BYTES);
    requireRange("window", window, 1, MAX_WINDOW);
    requireRange("threads", threads, 1, 1024);
    requireRange("connections", connections, 1, MAX_CONNECTIONS);
    requireRange("workers", workers, 0, 1024);
    if (listen && advertisedHost == null && WILDCARDS.contains(host)) {
      throw new IllegalArgumentException(
          "advertisedHost must be set where host is " + host + ": nobody can connect to that");
    }
    if (token != null && token.isEmpty()) {
      throw new IllegalArgumentException("token must not be empty");
    }
    if (connectTimeout.isZero()
        || connectTimeout.isNegative()
        || connectTimeout.compareTo(Duration.ofHours(1)) > 0) {
      throw new IllegalArgumentException(
          "connectTimeout must be positive and at most an hour, got " + connectTimeout);
    }
  }

  private static void requireRange(String name, int value, int min, int max) {
    if (value < min || value > max) {
      throw new IllegalArgumentException(
          name + " must be " + min + " to " + max + ", got " + value);
    }
  }

  /** How many workers there are by default. */
  static int defaultWorkers(int processors) {
    return Math.min(MOST_THREADS_UNASKED, processors / PROCESSORS_PER_THREAD);
  }

  /** How many connections are made by default: as many as there are workers, but one at least. */
  static int defaultConnections(int processors) {
    return Math.max(1, defaultWorkers(processors));
  }

  public static Builder builder() {
    return new Builder();
  }

  /** Says nothing of the token. */
  @Override
  public String toString() {
    return String.format(
        "NetworkOptions[%s:%d, token %s, TLS %s]",
        host, port, token == null ? "none" : "set", tls == null ? "off" : "on");
  }

  /** Builds options. */
  public static final class Builder {

    private boolean listen = true;
    private String host = "127.0.0.1";
    private int port;
    private String advertisedHost;
    private int advertisedPort;
    private String token;
    private TcpTls tls;
    private Duration connectTimeout = Duration.ofSeconds(5);
    private int pieceBytes = 1 << 20;
    private int window = 8;
    private Integer threads;
    private int connections = defaultConnections(Runtime.getRuntime().availableProcessors());
    private int workers = defaultWorkers(Runtime.getRuntime().availableProcessors());

    private Builder() {}

    /** Default: true. */
    public Builder listen(boolean listen) {
      this.listen = listen;
      return this;
    }

    /** Default: 127.0.0.1, so that other machines have no way in. */
    public Builder host(String host) {
      this.host = host;
      return this;
    }

    /** Default: 0, any free port. */
    public Builder port(int port) {
      this.port = port;
      return this;
    }

    /** Default: null, the host. To be set where that is a wildcard such as 0.0.0.0. */
    public Builder advertisedHost(String advertisedHost) {
      this.advertisedHost = advertisedHost;
      return this;
    }

    /** Default: 0, the one listened on. To be set where others come through a forwarded port. */
    public Builder advertisedPort(int advertisedPort) {
      this.advertisedPort = advertisedPort;
      return this;
    }

    /**
     * Default: null. Each side proves to the other that it knows the token without sending it; who
     * doesn't is refused. Without TLS the data itself is in the clear.
     */
    public Builder token(String token) {
      this.token = token;
      return this;
    }

    /** Default: null. */
    public Builder tls(TcpTls tls) {
      this.tls = tls;
      return this;
    }

    /** Default: 5 seconds. */
    public Builder connectTimeout(Duration connectTimeout) {
      this.connectTimeout = connectTimeout;
      return this;
    }

    /** Default: 1 MiB. */
    public Builder pieceBytes(int pieceBytes) {
      this.pieceBytes = pieceBytes;
      return this;
    }

    /** Default: 8. While an engine computes, it looks at its transfers once a step. */
    public Builder window(int window) {
      this.window = window;
      return this;
    }

    /** Default: as many as connections, at least 2. */
    public Builder threads(int threads) {
      this.threads = threads;
      return this;
    }

    /** Default: one for every four of the machine's processors, at least 1 and at most 4. */
    public Builder connections(int connections) {
      this.connections = connections;
      return this;
    }

    /** Default: one for every four of the machine's processors, at most 4; so 0 with fewer. */
    public Builder workers(int workers) {
      this.workers = workers;
      return this;
    }

    /**
     * @throws IllegalArgumentException if a value can't be right
     */
    public NetworkOptions build() {
      return new NetworkOptions(
          listen,
          host,
          port,
          advertisedHost,
          advertisedPort,
          token,
          tls,
          connectTimeout,
          pieceBytes,
          window,
          threads != null ? threads : Math.max(LEAST_THREADS_UNASKED, connections),
          connections,
          workers);
    }
  }
}
