package dev.halcyon.engine.disagg.server;

/**
 * A path of the service.
 *
 * @param method GET or POST
 * @param path the whole path, or a prefix of it that ends with "/*"
 * @param open whether it is for everyone, API key or not
 * @param endpoint what answers
 */
public record Route(String method, String path, boolean open, Endpoint endpoint) {

  public static Route get(String path, Endpoint endpoint) {
    return new Route("GET", path, false, endpoint);
  }

  public static Route openGet(String path, Endpoint endpoint) {
    return new Route("GET", path, true, endpoint);
  }

  /** A route that takes JSON. */
  public static Route post(String path, Endpoint endpoint) {
    return new Route("POST", path, false, endpoint);
  }

  boolean matches(String called) {
    return path.endsWith("/*")
        ? called.startsWith(path.substring(0, path.length() - 1))
            && called.length() > path.length() - 1
        : path.equals(called);
  }
}
