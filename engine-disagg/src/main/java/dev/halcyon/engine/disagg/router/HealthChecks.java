package dev.halcyon.engine.disagg.router;

import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Asks each endpoint again and again how it is. */
final class HealthChecks {

  private static final int MOST_BYTES = 64 << 10;

  private final NodeClient client;
  private final Duration interval;
  private final Duration patience;
  private volatile boolean closed;

  /**
   * @param interval between the end of a check and the next
   * @param patience how long one may take
   */
  HealthChecks(NodeClient client, Duration interval, Duration patience) {
    this.client = client;
    this.interval = interval;
    this.patience = patience;
  }

  void start(List<Node> nodes, EventLoopGroup loops) {
    for (Node node : nodes) {
      new Watch(node, loops.next()).check();
    }
  }

  void close() {
    closed = true;
  }

  /** The checks of one endpoint. */
  private final class Watch {

    private final Node node;
    private final EventLoop loop;

    Watch(Node node, EventLoop loop) {
      this.node = node;
      this.loop = loop;
    }

    void check() {
      if (closed) {
        return;
      }
      WholeAnswer answer = new WholeAnswer(MOST_BYTES, this::answered, this::failed);
      Exchange exchange = client.get(loop, node, "/health", answer);
      loop.schedule(
          () -> exchange.fail("no answer to a check within " + patience),
          patience.toNanos(),
          TimeUnit.NANOSECONDS);
    }

    private void answered(WholeAnswer.Result result) {
      if (result.status() == 200) {
        node.checkSucceeded();
      } else {
        node.checkFailed("its check was answered with " + result.status());
      }
      next();
    }

    private void failed(ExchangeFailure failure) {
      if (failure.kind() == ExchangeFailure.Kind.STALE) {
        check();
        return;
      }
      if (!closed) {
        node.checkFailed(failure.reason());
      }
      next();
    }

    private void next() {
      if (!closed) {
        loop.schedule(this::check, interval.toNanos(), TimeUnit.NANOSECONDS);
      }
    }
  }
}
