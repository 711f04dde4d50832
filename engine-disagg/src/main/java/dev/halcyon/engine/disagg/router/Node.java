package dev.halcyon.engine.disagg.router;

import java.net.URI;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One endpoint: where it is, what this router has running on it, and whether it is up. */
final class Node {

  private static final Logger LOG = LoggerFactory.getLogger(Node.class);

  private final URI url;
  private final Role role;
  private final Health health;
  private final AtomicInteger running = new AtomicInteger();
  private final Set<Exchange> unanswered = ConcurrentHashMap.newKeySet();
  private volatile boolean staleBefore;

  Node(URI url, Role role, Health health) {
    this.url = url;
    this.role = role;
    this.health = health;
  }

  Role role() {
    return role;
  }

  URI url() {
    return url;
  }

  String host() {
    String host = url.getHost();
    return host.startsWith("[") ? host.substring(1, host.length() - 1) : host;
  }

  int port() {
    return url.getPort();
  }

  boolean isTls() {
    return url.getScheme().equals("https");
  }

  /** What stands in the Host header. */
  String authority() {
    return url.getRawAuthority();
  }

  boolean isUp() {
    return health.isUp();
  }

  /** Requests that this router has running here. */
  int running() {
    return running.get();
  }

  void began() {
    running.incrementAndGet();
  }

  void ended() {
    running.decrementAndGet();
  }

  /** Notes an exchange that is given up if checks find the endpoint down. */
  void awaits(Exchange exchange) {
    unanswered.add(exchange);
  }

  void answered(Exchange exchange) {
    unanswered.remove(exchange);
  }

  void callSucceeded() {
    staleBefore = false;
    health.callSucceeded();
  }

  /** Notes a call without an answer; returns whether it counts against the endpoint. */
  boolean callFailed(ExchangeFailure failure) {
    boolean counts =
        switch (failure.kind()) {
          case NOT_SENT, BROKEN -> true;
          case STALE -> staleBefore; // once may be chance, or a restart
          case TOO_LARGE -> false;
        };
    staleBefore |= failure.kind() == ExchangeFailure.Kind.STALE;
    if (counts) {
      failed(failure.reason());
    }
    return counts;
  }

  void checkSucceeded() {
    if (health.checkSucceeded()) {
      LOG.info("{} endpoint {} is up", role.label(), url);
    }
  }

  /** Whoever waits for an answer of an endpoint that fails its checks need not wait on. */
  void checkFailed(String reason) {
    failed(reason);
    if (!health.isUp()) {
      unanswered.forEach(exchange -> exchange.fail("the endpoint went down"));
    }
  }

  private void failed(String reason) {
    if (health.failed()) {
      LOG.warn("{} endpoint {} is down: {}", role.label(), url, reason);
    }
  }

  @Override
  public String toString() {
    return url.toString();
  }
}
