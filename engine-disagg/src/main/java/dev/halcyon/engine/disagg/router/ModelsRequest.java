package dev.halcyon.engine.disagg.router;

import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.Call;
import java.util.HashSet;
import java.util.Set;

/** A question about the models that are served: any decode endpoint may answer it. */
final class ModelsRequest {

  private static final int MOST_BYTES = 1 << 20;

  private final RouterParts router;
  private final Call call;
  private final Set<Node> asked = new HashSet<>();
  private Exchange current;

  ModelsRequest(RouterParts router, Call call) {
    this.router = router;
    this.call = call;
  }

  void start() {
    call.onLoop(
        () -> {
          call.onGone(this::stop);
          if (!call.isOver()) {
            ask();
          }
        });
  }

  private void stop() {
    if (current != null) {
      current.cancel();
    }
  }

  private void ask() {
    Node node = router.decode().choose(asked);
    if (node == null || !asked.add(node)) {
      call.fail(ApiException.failed(503, "no_endpoint", "No decode endpoint is up"));
      return;
    }
    current =
        router
            .client()
            .get(
                call.loop(),
                node,
                call.path(),
                new WholeAnswer(MOST_BYTES, this::answered, failure -> failed(node, failure)));
  }

  private void answered(WholeAnswer.Result result) {
    if (result.isRefusal()) {
      ask();
    } else {
      call.respond(result.status(), result.contentType(), result.body(), result.headers());
    }
  }

  private void failed(Node node, ExchangeFailure failure) {
    if (!node.callFailed(failure) && failure.kind() == ExchangeFailure.Kind.STALE) {
      asked.remove(node);
    }
    ask();
  }
}
