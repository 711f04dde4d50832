package dev.halcyon.engine.disagg.server;

import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpMethod;
import io.netty.handler.codec.http.HttpRequest;
import io.netty.handler.codec.http.HttpUtil;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * Lets requests in by their heads: the API key, the web page that a browser calls for, the route,
 * and the kind and size of body.
 */
final class Gate {

  /**
   * What a request's head says before anything is checked.
   *
   * @param path without the query
   * @param origin the web page's that a browser calls for and that may read the answer, or null
   */
  record Pass(String path, String origin) {}

  /** One for all paths: metrics name routes, and those must not grow with what clients think of. */
  private static final Route PREFLIGHT =
      new Route("OPTIONS", "preflight", true, Call::respondToPreflight);

  private final ServerOptions options;
  private final List<Route> routes;
  private final byte[] keyDigest;

  Gate(ServerOptions options, List<Route> routes) {
    this.options = options;
    this.routes = List.copyOf(routes);
    this.keyDigest = options.apiKey() == null ? null : digest(options.apiKey());
  }

  Pass passOf(HttpRequest request) {
    String uri = request.uri();
    int query = uri.indexOf('?');
    String origin = request.headers().get(HttpHeaderNames.ORIGIN);
    return new Pass(
        query < 0 ? uri : uri.substring(0, query),
        origin != null && allows(origin) ? origin : null);
  }

  /**
   * The route of a request.
   *
   * @throws ApiException if it may not come in
   */
  Route admit(HttpRequest request, Pass pass) {
    String origin = request.headers().get(HttpHeaderNames.ORIGIN);
    if (origin != null && pass.origin() == null) {
      // Whatever a browser sends for some web page says so: this also ends requests that need no
      // leave of CORS, and those that reach this address under another name.
      throw ApiException.refused(
          403, "origin_not_allowed", "Web pages of this origin may not call this server");
    }
    if (request.method().equals(HttpMethod.OPTIONS) && origin != null) {
      return PREFLIGHT;
    }
    Route route = find(request, pass.path());
    if (!route.open() && !hasKey(request)) {
      throw ApiException.refused(
              401,
              "invalid_api_key",
              "Send the API key as 'Authorization: Bearer KEY'; it was left out, or is another one")
          .withHeader("www-authenticate", "Bearer");
    }
    if (route.method().equals("POST")) {
      requireJson(request);
    }
    if (HttpUtil.getContentLength(request, 0L) > options.maxBodyBytes()) {
      throw tooLarge(options.maxBodyBytes());
    }
    return route;
  }

  static ApiException tooLarge(int most) {
    return ApiException.refused(
        413, "body_too_large", "The body is larger than the " + most + " bytes allowed");
  }

  private Route find(HttpRequest request, String path) {
    List<Route> there = routes.stream().filter(route -> route.matches(path)).toList();
    if (there.isEmpty()) {
      throw ApiException.refused(404, "not_found", "There is nothing at this path");
    }
    Optional<Route> route =
        there.stream().filter(each -> each.method().equals(request.method().name())).findFirst();
    return route.orElseThrow(
        () -> {
          String allowed = there.stream().map(Route::method).collect(Collectors.joining(", "));
          return ApiException.refused(
                  405, "method_not_allowed", "This path takes " + allowed + " only")
              .withHeader("allow", allowed);
        });
  }

  private static void requireJson(HttpRequest request) {
    String type = request.headers().get(HttpHeaderNames.CONTENT_TYPE);
    String kind = type == null ? "" : type.split(";", 2)[0].trim().toLowerCase(Locale.ROOT);
    if (!kind.equals(Call.JSON)) {
      throw ApiException.refused(
          415,
          "unsupported_media_type",
          "The body must be JSON, with Content-Type application/json");
    }
    String encoding = request.headers().get(HttpHeaderNames.CONTENT_ENCODING);
    if (encoding != null && !encoding.equalsIgnoreCase("identity")) {
      throw ApiException.refused(
          415, "unsupported_encoding", "The body must not be compressed (Content-Encoding)");
    }
  }

  private boolean allows(String origin) {
    return options.allowedOrigins().contains("*") || options.allowedOrigins().contains(origin);
  }

  /** Compared by digest, in a time that says nothing of how much of it is right. */
  private boolean hasKey(HttpRequest request) {
    if (keyDigest == null) {
      return true;
    }
    String given = request.headers().get(HttpHeaderNames.AUTHORIZATION);
    String scheme = "bearer ";
    return given != null
        && given.regionMatches(true, 0, scheme, 0, scheme.length())
        && MessageDigest.isEqual(digest(given.substring(scheme.length()).trim()), keyDigest);
  }

  private static byte[] digest(String text) {
    try {
      return MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }
}
