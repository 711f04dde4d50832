package dev.halcyon.engine.disagg.router;

import java.util.ArrayDeque;
import java.util.Deque;

/** The connections to one endpoint that wait for use on one event loop. All on that loop. */
final class ConnectionPool {

  private static final int MOST = 64;

  private final Deque<NodeConnection> idle = new ArrayDeque<>();

  /** One that is open; null if there is none. */
  NodeConnection take() {
    NodeConnection connection;
    do {
      connection = idle.pollLast(); // the freshest
    } while (connection != null && !connection.isOpen());
    return connection;
  }

  void keep(NodeConnection connection) {
    if (idle.size() < MOST) {
      idle.addLast(connection);
      connection.rest();
    } else {
      connection.close();
    }
  }

  void closed(NodeConnection connection) {
    idle.remove(connection);
  }

  /** Closes those that wait: one of them turned out to be of no use. */
  void clear() {
    while (!idle.isEmpty()) {
      idle.pollLast().close();
    }
  }
}
