package dev.halcyon.engine.disagg.router;

import dev.halcyon.engine.disagg.server.Json;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Frees prompts that nobody will fetch, as well as that goes: what can't be told to an endpoint is
 * freed by its own timeout.
 */
final class Pins {

  private static final String PATH = "/prefill/cancel";
  private static final int TRIES = 3;
  private static final int MOST_AT_A_TIME = 4096;
  private static final int MOST_BYTES = 64 << 10;
  private static final Duration PAUSE = Duration.ofMillis(200);

  private final NodeClient client;
  private final EventLoopGroup loops;
  private final RouterMetrics metrics;
  private final AtomicInteger running = new AtomicInteger();
  private volatile boolean closing;

  Pins(NodeClient client, EventLoopGroup loops, RouterMetrics metrics) {
    this.client = client;
    this.loops = loops;
    this.metrics = metrics;
  }

  /** Tells the endpoint that nobody will fetch a prompt. */
  void free(Pin pin) {
    if (running.incrementAndGet() > MOST_AT_A_TIME) {
      running.decrementAndGet();
      metrics.cancelled(false);
      return;
    }
    send(pin, loops.next(), TRIES);
  }

  /** Whether an endpoint has not heard of something yet. */
  boolean isBusy() {
    return running.get() > 0;
  }

  /** Tries nothing again from now on. */
  void close() {
    closing = true;
  }

  private void send(Pin pin, EventLoop loop, int tries) {
    byte[] body = Json.bytes(Json.object().put("request_id", pin.id()));
    ByteBuf bytes = Unpooled.wrappedBuffer(body);
    Sent sent = new Sent(pin, loop, tries);
    client.postAside(
        loop,
        pin.node(),
        PATH,
        bytes,
        new WholeAnswer(MOST_BYTES, sent::answered, failure -> sent.failed()));
  }

  /** One try. */
  private final class Sent {

    private final Pin pin;
    private final EventLoop loop;
    private final int tries;

    Sent(Pin pin, EventLoop loop, int tries) {
      this.pin = pin;
      this.loop = loop;
      this.tries = tries;
    }

    void answered(WholeAnswer.Result result) {
      if (result.status() == 200) {
        ended(true);
      } else {
        failed();
      }
    }

    void failed() {
      if (tries > 1 && !closing) {
        loop.schedule(() -> send(pin, loop, tries - 1), PAUSE.toMillis(), TimeUnit.MILLISECONDS);
      } else {
        ended(false);
      }
    }

    private void ended(boolean told) {
      running.decrementAndGet();
      metrics.cancelled(told);
    }
  }
}
