package dev.halcyon.engine.disagg.router;

import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.Call;
import dev.halcyon.engine.disagg.server.EventStream;
import io.netty.buffer.ByteBuf;
import io.netty.util.concurrent.ScheduledFuture;
import java.time.Duration;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * One client's request on its way: waits for its turn, is tried on endpoints, again where that is
 * safe, and ends once, however it ends. Whatever a try may have left pinned is freed before the
 * next, and at the end unless all went well. All on the event loop of the client's connection.
 */
final class RoutedRequest {

  private final RouterParts router;
  private final Call call;
  private final long startNanos = System.nanoTime();
  private final long[] keys;
  private final Set<Node> avoid = new HashSet<>();
  private ClientBody body;
  private EventStream heartbeats;
  private Admission.Ticket ticket;
  private Exchange current;
  private Pin pin;
  private Node lent;
  private int retries;
  private boolean over;
  private ScheduledFuture<?> deadline;
  private ScheduledFuture<?> pause;

  RoutedRequest(RouterParts router, Call call, ClientBody body) {
    this.router = router;
    this.call = call;
    this.body = body;
    this.keys = body.keys();
  }

  /** Begins; from any thread. */
  void start() {
    call.onLoop(
        () -> {
          call.onGone(this::stop);
          if (!over) {
            waitForTurn();
          }
        });
  }

  private void waitForTurn() {
    Duration most = router.options().requestTimeout();
    deadline = call.loop().schedule(this::timeOut, most.toNanos(), TimeUnit.NANOSECONDS);
    if (body.isStream()) {
      heartbeats = call.events();
    }
    try {
      ticket = router.admission().enter(() -> call.loop().execute(this::begin));
    } catch (ApiException e) {
      fail(e);
      return;
    }
    router.admission().proceed();
  }

  private void begin() {
    if (over) {
      return;
    }
    if (router.options().scheduleStyle() == ScheduleStyle.CONTEXT_FIRST) {
      new ContextFirstTry(router, this).start();
    } else {
      new GenerationFirstTry(router, this).start();
    }
  }

  // For the tries.

  boolean isOver() {
    return over;
  }

  Call call() {
    return call;
  }

  ClientBody body() {
    return body;
  }

  /** Keys of the prompt's beginnings. */
  long[] keys() {
    return keys;
  }

  /** Endpoints that have failed this request or not taken it. */
  Set<Node> avoid() {
    return avoid;
  }

  void post(Node node, String path, ByteBuf content, Answer answer) {
    current = router.client().post(call.loop(), node, path, content, answer);
  }

  /** Passes on what an endpoint answers. */
  Relay relay(Relay.Outcome outcome) {
    return new Relay(call, router.options().silenceTimeout(), outcome);
  }

  /**
   * Notes that an endpoint is to keep the prompt, which has to be freed if this does not end well.
   *
   * @return what the prompt is called there
   */
  String pinOn(Node node) {
    String id = router.ids().next();
    pin = new Pin(node, id);
    return id;
  }

  /** Nothing was kept. */
  void notPinned() {
    pin = null;
  }

  /** Counts as running on an endpoint that is called by another one, until the answer begins. */
  void lendTo(Node node) {
    lent = node;
    node.began();
  }

  /** The first byte is on its way to the client: there is no going back from here. */
  void answerBegan() {
    body = null;
    stopHeartbeats(); // the endpoint sends its own
    takeBack();
    router.metrics().answerBegan(System.nanoTime() - startNanos);
  }

  boolean mayRetry() {
    return retries < router.options().maxRetries();
  }

  /** Notes that an endpoint gave no answer. */
  void noteFailure(Node node, ExchangeFailure failure) {
    if (node.callFailed(failure)) {
      avoid.add(node);
    }
  }

  /** Tries again from the start after an endpoint gave no answer, or gives up. */
  void endpointFailed(Node node, ExchangeFailure failure) {
    noteFailure(node, failure);
    String role = node.role().label();
    if (failure.kind() == ExchangeFailure.Kind.TOO_LARGE) {
      fail(
          ApiException.failed(
              502, "answer_too_large", "A " + role + " endpoint answered too much"));
      return;
    }
    again(
        () ->
            fail(
                failure.sent()
                    ? ApiException.failed(
                        502, "endpoint_failed", "A " + role + " endpoint gave no valid answer")
                    : ApiException.failed(
                        503, "endpoint_unreachable", "No " + role + " endpoint was reached")));
  }

  /** Tries again from the start after an endpoint did not take the request, or passes on why. */
  void endpointRefused(Node node, WholeAnswer.Result result) {
    if (result.isRefusal()) {
      avoid.add(node);
      again(() -> answer(result));
    } else {
      answer(result);
    }
  }

  /** Does something after a pause, as one of the bounded number of retries. */
  void retry(Runnable action) {
    Duration delay = router.options().retryDelay().multipliedBy(1L << Math.min(retries, 10));
    retries++;
    router.metrics().retried();
    takeBack();
    pause =
        call.loop()
            .schedule(
                () -> {
                  if (!over) {
                    action.run();
                  }
                },
                delay.toNanos(),
                TimeUnit.NANOSECONDS);
  }

  /** An endpoint broke off within its answer. */
  void broke(Node node, ExchangeFailure failure) {
    noteFailure(node, failure);
    router.metrics().broke();
    fail(ApiException.failed(502, "endpoint_failed", "The endpoint broke off its answer"));
  }

  /** No endpoint of a role is up. */
  void noneUp(Role role) {
    fail(ApiException.failed(503, "no_endpoint", "No " + role.label() + " endpoint is up"));
  }

  /**
   * An endpoint's answer has gone to the client.
   *
   * @param well whether it was a good one, so that nothing is left pinned
   */
  void answered(Node node, boolean well) {
    node.callSucceeded();
    finish(!well);
  }

  private void again(Runnable otherwise) {
    if (mayRetry()) {
      free();
      retry(this::begin);
    } else {
      otherwise.run();
    }
  }

  private void answer(WholeAnswer.Result result) {
    finish(true);
    if (call.hasBegun()) {
      call.fail(result.error());
    } else {
      call.respond(result.status(), result.contentType(), result.body(), result.headers());
    }
  }

  private void fail(ApiException error) {
    finish(true);
    call.fail(error);
  }

  private void timeOut() {
    if (!over) {
      stop();
      call.fail(
          ApiException.failed(504, "timeout", "The request took longer than this router allows"));
    }
  }

  /** The client is gone, or must not wait any longer. */
  private void stop() {
    if (!over) {
      finish(true);
      if (current != null) {
        current.cancel();
      }
    }
  }

  private void finish(boolean frees) {
    if (over) {
      return;
    }
    over = true;
    body = null;
    if (frees) {
      free();
    }
    takeBack();
    stopHeartbeats();
    cancel(deadline);
    cancel(pause);
    if (ticket != null) {
      ticket.leave();
    }
  }

  private void free() {
    if (pin != null) {
      router.pins().free(pin);
      pin = null;
    }
  }

  private void takeBack() {
    if (lent != null) {
      lent.ended();
      lent = null;
    }
  }

  private void stopHeartbeats() {
    if (heartbeats != null) {
      heartbeats.stop();
    }
  }

  private static void cancel(ScheduledFuture<?> timer) {
    if (timer != null) {
      timer.cancel(false);
    }
  }
}
