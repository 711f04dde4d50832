package dev.halcyon.engine.disagg.router;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.disagg.server.Json;
import io.netty.buffer.Unpooled;

/** One try of a request: asks a decode endpoint, which has the prompt computed once it has room. */
final class GenerationFirstTry implements Relay.Outcome {

  private final RouterParts router;
  private final RoutedRequest request;
  private Node prefill;
  private Node decode;

  GenerationFirstTry(RouterParts router, RoutedRequest request) {
    this.router = router;
    this.request = request;
  }

  void start() {
    prefill = router.prefill().choose(request.keys(), request.avoid());
    decode = router.decode().choose(request.avoid());
    if (prefill == null || decode == null) {
      request.noneUp(prefill == null ? Role.PREFILL : Role.DECODE);
      return;
    }
    String id = request.pinOn(prefill);
    request.lendTo(prefill);
    ObjectNode params =
        Json.object()
            .put("request_type", "generation_only")
            .put("schedule_style", "generation_first")
            .put("request_id", id)
            .put("prefill", prefill.url().toString());
    request.post(
        decode,
        request.call().path(),
        request.body().with(Unpooled.wrappedBuffer(Json.bytes(params))),
        request.relay(this));
  }

  /** Either endpoint may be the one that it is for. */
  @Override
  public void refused(WholeAnswer.Result result) {
    request.avoid().add(prefill);
    request.endpointRefused(decode, result);
  }

  @Override
  public void began() {
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
      return;
    }
    if (!failure.sent()) {
      request.notPinned();
    }
    request.endpointFailed(decode, failure);
  }
}
