package dev.halcyon.engine.disagg.server;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;

/**
 * How an {@link HttpServer} listens, to whom, and what its clients may cost. {@link #builder()} has
 * a default for everything.
 *
 * @param host the address to listen on. Default: 127.0.0.1, which other machines can't reach
 * @param port the port to listen on; 0 takes a free one. Default: 8000
 * @param apiKey what clients have to send as a bearer token. Default: null, nothing
 * @param tlsCertificate a certificate chain in PEM, to serve https. Default: null, plain http
 * @param tlsKey its private key in PEM (PKCS#8)
 * @param allowedOrigins web pages (as "https://example.org") that browsers may call from, or "*".
 *     Default: none; a request that a browser sends for any other page is refused
 * @param maxConnections open connections. Default: 1024
 * @param maxBodyBytes bytes of a request's body. Default: 16 MiB
 * @param bodyTimeout how long a body may take to arrive. Default: 30 s
 * @param idleTimeout how long a connection may stay without a request. Default: 60 s
 * @param stallTimeout how long a client may read nothing of what is written to it, before it is cut
 *     off and its request cancelled. Default: 30 s
 * @param heartbeat the longest silence in an event stream; then a comment is sent. Default: 10 s
 * @param drainTimeout how long running requests have for their end when the server is closed.
 *     Default: 30 s
 */
public record ServerOptions(
    String host,
    int port,
    String apiKey,
    Path tlsCertificate,
    Path tlsKey,
    List<String> allowedOrigins,
    int maxConnections,
    int maxBodyBytes,
    Duration bodyTimeout,
    Duration idleTimeout,
    Duration stallTimeout,
    Duration heartbeat,
    Duration drainTimeout) {

  public ServerOptions {
    Objects.requireNonNull(host, "host");
    allowedOrigins = List.copyOf(allowedOrigins);
    if (port < 0 || port > 65535) {
      throw new IllegalArgumentException("port must be 0 to 65535, got " + port);
    }
    if (apiKey != null && apiKey.isBlank()) {
      throw new IllegalArgumentException("apiKey must not be blank; leave it out for none");
    }
    if ((tlsCertificate == null) != (tlsKey == null)) {
      throw new IllegalArgumentException("tlsCertificate and tlsKey go together");
    }
    Checks.atLeast(1, maxConnections, "maxConnections");
    Checks.atLeast(1, maxBodyBytes, "maxBodyBytes");
    Checks.positive(bodyTimeout, "bodyTimeout");
    Checks.positive(idleTimeout, "idleTimeout");
    Checks.positive(stallTimeout, "stallTimeout");
    Checks.positive(heartbeat, "heartbeat");
    Checks.notNegative(drainTimeout, "drainTimeout");
  }

  /** The same with another limit for bodies. */
  public ServerOptions withMaxBodyBytes(int bytes) {
    return new ServerOptions(
        host,
        port,
        apiKey,
        tlsCertificate,
        tlsKey,
        allowedOrigins,
        maxConnections,
        bytes,
        bodyTimeout,
        idleTimeout,
        stallTimeout,
        heartbeat,
        drainTimeout);
  }

  public static Builder builder() {
    return new Builder();
  }

  /** The key is left out. */
  @Override
  public String toString() {
    return "ServerOptions[" + host + ":" + port + (apiKey == null ? "" : ", with an API key") + "]";
  }

  /** Collects options; checked when built. Each setter is named for what it sets. */
  public static final class Builder {

    private String host = "127.0.0.1";
    private int port = 8000;
    private String apiKey;
    private Path tlsCertificate;
    private Path tlsKey;
    private List<String> allowedOrigins = List.of();
    private int maxConnections = 1024;
    private int maxBodyBytes = 16 << 20;
    private Duration bodyTimeout = Duration.ofSeconds(30);
    private Duration idleTimeout = Duration.ofSeconds(60);
    private Duration stallTimeout = Duration.ofSeconds(30);
    private Duration heartbeat = Duration.ofSeconds(10);
    private Duration drainTimeout = Duration.ofSeconds(30);

    private Builder() {}

    public Builder host(String value) {
      host = value;
      return this;
    }

    public Builder port(int value) {
      port = value;
      return this;
    }

    public Builder apiKey(String value) {
      apiKey = value;
      return this;
    }

    /** Serves https with these PEM files; both null for plain http. */
    public Builder tls(Path certificate, Path key) {
      tlsCertificate = certificate;
      tlsKey = key;
      return this;
    }

    public Builder allowedOrigins(List<String> value) {
      allowedOrigins = value;
      return this;
    }

    public Builder maxConnections(int value) {
      maxConnections = value;
      return this;
    }

    public Builder maxBodyBytes(int value) {
      maxBodyBytes = value;
      return this;
    }

    public Builder bodyTimeout(Duration value) {
      bodyTimeout = value;
      return this;
    }

    public Builder idleTimeout(Duration value) {
      idleTimeout = value;
      return this;
    }

    public Builder stallTimeout(Duration value) {
      stallTimeout = value;
      return this;
    }

    public Builder heartbeat(Duration value) {
      heartbeat = value;
      return this;
    }

    public Builder drainTimeout(Duration value) {
      drainTimeout = value;
      return this;
    }

    /**
     * @throws IllegalArgumentException if a value can't be right
     */
    public ServerOptions build() {
      return new ServerOptions(
          host,
          port,
          apiKey,
          tlsCertificate,
          tlsKey,
          allowedOrigins,
          maxConnections,
          maxBodyBytes,
          bodyTimeout,
          idleTimeout,
          stallTimeout,
          heartbeat,
          drainTimeout);
    }
  }
}
