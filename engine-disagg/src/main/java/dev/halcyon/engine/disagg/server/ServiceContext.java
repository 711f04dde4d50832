package dev.halcyon.engine.disagg.server;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;

/** What the connections of a service share. */
final class ServiceContext {

  private final ServerOptions options;
  private final Gate gate;
  private final Executor workers;
  private final ServerMetrics metrics;
  private final Function<Throwable, ApiException> failures;
  private final Set<Connection> connections = ConcurrentHashMap.newKeySet();
  private final AtomicInteger open = new AtomicInteger();
  private volatile boolean draining;

  /**
   * @param failures what a client is told of something that an endpoint has thrown
   */
  ServiceContext(
      ServerOptions options,
      Gate gate,
      Executor workers,
      ServerMetrics metrics,
      Function<Throwable, ApiException> failures) {
    this.options = options;
    this.gate = gate;
    this.workers = workers;
    this.metrics = metrics;
    this.failures = failures;
  }

  ServerOptions options() {
    return options;
  }

  Gate gate() {
    return gate;
  }

  Executor workers() {
    return workers;
  }

  ApiException failure(Throwable thrown) {
    return failures.apply(thrown);
  }

  /** Whether nothing new is taken. */
  boolean draining() {
    return draining;
  }

  void drain() {
    draining = true;
    connections.forEach(Connection::drain);
  }

  Set<Connection> connections() {
    return connections;
  }

  /** Notes a new connection, unless there are too many; returns whether it did. */
  boolean connectionOpened(Connection connection) {
    if (open.incrementAndGet() > options.maxConnections()) {
      open.decrementAndGet();
      return false;
    }
    connections.add(connection);
    metrics.connections(connections.size());
    if (draining) {
      connection.closeNow();
    }
    return true;
  }

  void connectionClosed(Connection connection) {
    open.decrementAndGet();
    connections.remove(connection);
    metrics.connections(connections.size());
  }

  void callBegan() {
    metrics.callBegan();
  }

  /**
   * @param gone whether the client went away, or was cut off, before the answer's end
   */
  void callEnded(Call call, boolean gone) {
    metrics.callEnded(call.routePath(), gone ? "gone" : "" + call.status(), call.nanos());
  }

  /** Notes that a client was cut off because it did not read. */
  void cutOff() {
    metrics.cutOff();
  }
}
