package dev.halcyon.engine.examples;

import dev.halcyon.engine.disagg.http.SplitOptions;
import dev.halcyon.engine.disagg.transfer.NetworkOptions;
import dev.halcyon.engine.disagg.transfer.NetworkTransport;
import dev.halcyon.engine.disagg.transfer.TcpTls;
import dev.halcyon.engine.transfer.KvTransport;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import picocli.CommandLine.Option;

/** Which part of split requests a server does, and how keys and values travel. */
final class SplitArguments {

  static final String TOKEN_VARIABLE = "HALCYON_KV_TOKEN";

  /** What a server does. */
  enum Role {
    AGGREGATED,
    PREFILL,
    DECODE,
    ROUTER;

    /** Whether it hands keys and values on, or takes them. */
    boolean transfers() {
      return this == PREFILL || this == DECODE;
    }
  }

  @Option(
      names = "--role",
      paramLabel = "ROLE",
      description =
          "aggregated (does whole requests), prefill (prompts and first tokens), decode (the rest)"
              + " or router (stands in front of those). Default: aggregated.")
  Role role = Role.AGGREGATED;

  @Option(
      names = "--kv-transport",
      paramLabel = "NAME",
      description =
          "How keys and values travel, the same on both sides: tcp, or ucx where the machine has it."
              + " Default: tcp.")
  private NetworkTransport transport;

  @Option(
      names = "--kv-host",
      paramLabel = "ADDRESS",
      description =
          "The address where a prefill server offers keys and values. Default: 127.0.0.1, which"
              + " other machines can't reach.")
  private String host;

  @Option(
      names = "--kv-port",
      paramLabel = "N",
      description = "The port for that; 0 for a free one. Default: 0.")
  private Integer port;

  @Option(
      names = "--kv-advertised-host",
      paramLabel = "ADDRESS",
      description = "Where decode servers find it, if that is another address.")
  private String advertisedHost;

  @Option(
      names = "--kv-advertised-port",
      paramLabel = "N",
      description = "The port where they find it, if that is another one.")
  private Integer advertisedPort;

  @Option(
      names = "--kv-token-file",
      paramLabel = "FILE",
      description =
          "A file with the token that prefill and decode servers share, in place of the"
              + " environment's HALCYON_KV_TOKEN.")
  private Path tokenFile;

  @Option(
      names = "--kv-tls-certificate",
      paramLabel = "FILE",
      description = "This side's certificate chain in PEM, for TLS both ways.")
  private Path certificate;

  @Option(names = "--kv-tls-key", paramLabel = "FILE", description = "Its private key in PEM.")
  private Path key;

  @Option(
      names = "--kv-tls-trusted",
      paramLabel = "FILE",
      description = "The certificates in PEM that the other side's must lead to.")
  private Path trusted;

  @Option(
      names = "--kv-connections",
      paramLabel = "N",
      description =
          "How many a decode server makes to a prefill server, over tcp, and a prefill server's"
              + " threads for them. Default: one for every 4 processors, 1 to 4.")
  private Integer connections;

  @Option(
      names = "--kv-timeout",
      paramLabel = "SECONDS",
      description =
          "How long a prompt waits to be fetched, or its keys and values to arrive. Default: 30.")
  private Long timeoutSeconds;

  @Option(
      names = "--prefill",
      paramLabel = "URL",
      description =
          "A prefill server of a router's, or that a decode server may ask itself (generation"
              + " first); may be given several times. Default: none.")
  private List<URI> prefills;

  @Option(
      names = "--prefill-api-key-file",
      paramLabel = "FILE",
      description = "A file with the key to send there. Default: this server's own key.")
  private Path prefillKeyFile;

  @Option(
      names = "--prefill-trust",
      paramLabel = "FILE",
      description =
          "Certificates in PEM that those of https prefill servers have to lead to. Default: those"
              + " that Java trusts.")
  private Path prefillTrust;

  @Option(
      names = "--max-handover-bytes",
      paramLabel = "N",
      description =
          "Bytes that a prefill server hands over with a request, logits included. Default:"
              + " 134217728.")
  private Integer handoverBytes;

  /**
   * The way to other engines; null for who has none.
   *
   * @param environmentToken the token that the environment gives, or null
   */
  KvTransport open(String environmentToken) throws IOException {
    requireFits();
    if (!role.transfers()) {
      return null;
    }
    NetworkOptions.Builder options =
        NetworkOptions.builder().listen(role == Role.PREFILL).tls(tls());
    if (tokenFile != null) {
      options.token(Files.readString(tokenFile).strip());
    } else if (environmentToken != null && !environmentToken.isBlank()) {
      options.token(environmentToken.strip());
    }
    if (host != null) {
      options.host(host);
    }
    if (port != null) {
      options.port(port);
    }
    if (connections != null) {
      options.connections(connections);
    }
    options.advertisedHost(advertisedHost);
    if (advertisedPort != null) {
      options.advertisedPort(advertisedPort);
    }
    NetworkTransport kind = transport == null ? NetworkTransport.TCP : transport;
    return kind.open(options.build());
  }

  /** How long transfers may stand still. */
  Duration timeout() {
    return Duration.ofSeconds(timeoutSeconds == null ? 30 : timeoutSeconds);
  }

  /** The prefill servers of a router. */
  List<URI> prefills() {
    return prefills == null ? List.of() : prefills;
  }

  /** Bytes that are handed over with a request. */
  int handoverBytes() {
    return handoverBytes == null ? SplitOptions.MAX_HANDOVER_BYTES : handoverBytes;
  }

  /**
   * The service's part; null for who has none.
   *
   * @param ownKey what clients have to send here, or null
   */
  SplitOptions options(String ownKey) throws IOException {
    if (!role.transfers()) {
      return null;
    }
    int bytes = handoverBytes();
    String prefillKey = prefillKeyFile == null ? ownKey : Files.readString(prefillKeyFile).strip();
    return role == Role.PREFILL
        ? new SplitOptions(SplitOptions.Role.PREFILL, List.of(), null, null, bytes)
        : new SplitOptions(SplitOptions.Role.DECODE, prefills(), prefillKey, prefillTrust, bytes);
  }

  private TcpTls tls() {
    if (certificate == null && key == null && trusted == null) {
      return null;
    }
    if (certificate == null || key == null || trusted == null) {
      throw new IllegalArgumentException(
          "--kv-tls-certificate, --kv-tls-key and --kv-tls-trusted go together");
    }
    return new TcpTls(certificate, key, trusted);
  }

  /** Requires that what is given is for the role. */
  void requireFits() {
    Stream<Object> ofPrefill = Stream.of(host, port, advertisedHost, advertisedPort);
    if (role != Role.PREFILL && ofPrefill.anyMatch(Objects::nonNull)) {
      throw new IllegalArgumentException(
          "--kv-host, --kv-port and the advertised ones are for --role prefill, which listens");
    }
    Stream<Object> ofDecode = Stream.of(prefillKeyFile, prefillTrust);
    if (role != Role.DECODE && ofDecode.anyMatch(Objects::nonNull)) {
      throw new IllegalArgumentException("--prefill-... are for --role decode");
    }
    if (role != Role.DECODE && role != Role.ROUTER && prefills != null) {
      throw new IllegalArgumentException("--prefill is for --role decode and --role router");
    }
    Stream<Object> ofBoth =
        Stream.of(transport, tokenFile, certificate, key, trusted, connections, timeoutSeconds);
    if (!role.transfers() && ofBoth.anyMatch(Objects::nonNull)) {
      throw new IllegalArgumentException("--kv-... are for --role prefill and --role decode");
    }
    if (role == Role.AGGREGATED && handoverBytes != null) {
      throw new IllegalArgumentException("--max-handover-bytes is not for --role aggregated");
    }
  }
}
