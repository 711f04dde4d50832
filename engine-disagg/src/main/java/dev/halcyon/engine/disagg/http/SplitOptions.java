package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.disagg.server.Checks;
import java.net.URI;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Objects;

/**
 * The part that a server has in requests that are split between two engines. Its engine needs a
 * {@code kvTransport}.
 *
 * @param role which part
 * @param prefillEndpoints of a decode server: where it may have prompts computed itself, as {@code
 *     http://host:8000}. A request that names another one is refused
 * @param prefillApiKey what it sends there as a bearer token, or null
 * @param prefillTrust certificates in PEM that those of https endpoints have to lead to; null for
 *     those that Java trusts
 * @param maxHandoverBytes bytes of what a prefill server hands over, which come with the bodies of
 *     a decode server's requests
 */
public record SplitOptions(
    Role role,
    List<URI> prefillEndpoints,
    String prefillApiKey,
    Path prefillTrust,
    int maxHandoverBytes) {

  /** Default for {@link #maxHandoverBytes}: 128 MiB. */
  public static final int MAX_HANDOVER_BYTES = 128 << 20;

  /** Parts of a split request. */
  public enum Role {
    /** Computes prompts and first tokens, for others to go on with. */
    PREFILL,
    /** Goes on from there; does whole requests too. */
    DECODE
  }

  public SplitOptions {
    Objects.requireNonNull(role, "role");
    prefillEndpoints = prefillEndpoints.stream().map(SplitOptions::endpoint).toList();
    if (role == Role.PREFILL && !prefillEndpoints.isEmpty()) {
      throw new IllegalArgumentException("prefillEndpoints are for a decode server");
    }
    Checks.atLeast(1, maxHandoverBytes, "maxHandoverBytes");
  }

  public static SplitOptions prefill() {
    return new SplitOptions(Role.PREFILL, List.of(), null, null, MAX_HANDOVER_BYTES);
  }

  /**
   * @param prefillEndpoints where it may have prompts computed; empty if a router sees to that
   * @param prefillApiKey what it sends there as a bearer token, or null
   */
  public static SplitOptions decode(List<URI> prefillEndpoints, String prefillApiKey) {
    return new SplitOptions(Role.DECODE, prefillEndpoints, prefillApiKey, null, MAX_HANDOVER_BYTES);
  }

  /** The key is left out. */
  @Override
  public String toString() {
    return "SplitOptions[" + role + ", " + prefillEndpoints + "]";
  }

  /**
   * One form for all ways to write an endpoint.
   *
   * @throws IllegalArgumentException if it is none
   */
  static URI endpoint(URI uri) {
    String scheme = uri.getScheme() == null ? "" : uri.getScheme().toLowerCase(Locale.ROOT);
    if (!(scheme.equals("http") || scheme.equals("https"))
        || uri.getHost() == null
        || uri.getRawUserInfo() != null
        || uri.getRawQuery() != null
        || uri.getRawFragment() != null) {
      throw new IllegalArgumentException(
          "prefillEndpoints must be of the form http://host:port, got " + uri);
    }
    int port = uri.getPort() >= 0 ? uri.getPort() : scheme.equals("http") ? 80 : 443;
    String path = uri.getRawPath() == null ? "" : uri.getRawPath().replaceAll("/+$", "");
    return URI.create(scheme + "://" + uri.getHost().toLowerCase(Locale.ROOT) + ":" + port + path);
  }
}
