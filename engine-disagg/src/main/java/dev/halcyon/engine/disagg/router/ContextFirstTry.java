package dev.halcyon.engine.disagg.router;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.disagg.server.Json;
import io.netty.buffer.Unpooled;

/** One try of a request: has the prompt computed, and hands it on to be continued. */
final class ContextFirstTry implements Relay.Outcome {

  /** Larger answers are looked through by another thread than the event loop's. */
  private static final int SMALL = 256 << 10;

  private final RouterParts router;
  private final RoutedRequest request;
  private final long startNanos = System.nanoTime();
  private Node prefill;
  private Node decode;
  private Handover handover;

  ContextFirstTry(RouterParts router, RoutedRequest request) {
    this.router = router;
    this.request = request;
  }

  void start() {
    prefill = router.prefill().choose(request.keys(), request.avoid());
    if (prefill == null) {
      request.noneUp(Role.PREFILL);
      return;
    }
    String id = request.pinOn(prefill);
    ObjectNode params = Json.object().put("request_type", "context_only").put("request_id", id);
    request.post(
        prefill,
        "/prefill",
        request.body().with(Unpooled.wrappedBuffer(Json.bytes(params))),
        new WholeAnswer(router.options().maxHandoverBytes(), this::prompted, this::promptFailed));
  }

  private void prompted(WholeAnswer.Result result) {
    if (result.status() == 200) {
      find(result.body());
      return;
    }
    if (result.isBusy() || !result.isRefusal()) {
      request.notPinned();
    }
    request.endpointRefused(prefill, result);
  }

  private void find(byte[] answer) {
    if (answer.length <= SMALL) {
      handOn(Handover.find(answer));
      return;
    }
    router
        .workers()
        .execute(
            () -> {
              Handover found = Handover.find(answer);
              request.call().loop().execute(() -> handOn(found));
            });
  }

  private void handOn(Handover found) {
    if (request.isOver()) {
      return;
    }
    handover = found;
    if (handover == null) {
      promptFailed(
          new ExchangeFailure(
              ExchangeFailure.Kind.BROKEN, "its answer has no " + ClientBody.FIELD));
      return;
    }
    prefill.callSucceeded();
    router.metrics().prefilled(System.nanoTime() - startNanos);
    generate();
  }

  private void promptFailed(ExchangeFailure failure) {
    if (!failure.sent()) {
      request.notPinned();
    }
    request.endpointFailed(prefill, failure);
  }

  private void generate() {
    decode = router.decode().choose(request.avoid());
    if (decode == null) {
      request.noneUp(Role.DECODE);
      return;
    }
    request.post(
        decode, request.call().path(), request.body().with(handover.value()), request.relay(this));
  }

  @Override
  public void refused(WholeAnswer.Result result) {
    if (result.isTransfers()) {
      request.avoid().add(prefill);
    }
    request.endpointRefused(decode, result);
  }

  @Override
  public void began() {
    handover = null;
    request.answerBegan();
  }

  @Override
  public void ended(boolean well) {
    request.answered(decode, well);
  }

  @Override
  public void failed(ExchangeFailure failure, boolean begun) {
    if (begun) {
      request.broke(decode, failure);
    } else if (!failure.sent() && request.mayRetry()) {
      // Nobody has asked for the prompt yet, so that another endpoint can.
      request.noteFailure(decode, failure);
      request.retry(this::generate);
    } else {
      request.endpointFailed(decode, failure);
    }
  }
}
