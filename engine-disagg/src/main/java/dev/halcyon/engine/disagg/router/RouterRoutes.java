package dev.halcyon.engine.disagg.router;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.disagg.server.Call;
import dev.halcyon.engine.disagg.server.Endpoint;
import dev.halcyon.engine.disagg.server.Json;
import dev.halcyon.engine.disagg.server.Route;
import java.util.List;

/** What a router answers, and by whom. */
final class RouterRoutes {

  private final RouterParts router;
  private final NodeGroup prefill;
  private final Endpoint metrics;
  private final long seed;

  /**
   * @param metrics answers with all metrics
   * @param seed see {@link PrefixKeys}
   */
  RouterRoutes(RouterParts router, NodeGroup prefill, Endpoint metrics, long seed) {
    this.router = router;
    this.prefill = prefill;
    this.metrics = metrics;
    this.seed = seed;
  }

  List<Route> routes() {
    return List.of(
        Route.openGet("/health", this::health),
        Route.get("/metrics", metrics),
        Route.get("/v1/models", call -> new ModelsRequest(router, call).start()),
        Route.get("/v1/models/*", call -> new ModelsRequest(router, call).start()),
        Route.post("/v1/completions", call -> route(call, false)),
        Route.post("/v1/chat/completions", call -> route(call, true)));
  }

  private void route(Call call, boolean chat) {
    new RoutedRequest(router, call, ClientBody.of(call.takeBody(), chat, seed)).start();
  }

  /** Good if a request could be answered: an endpoint of each role is up. */
  private void health(Call call) {
    boolean good = prefill.up() > 0 && router.decode().up() > 0;
    ObjectNode state = Json.object().put("status", good ? "ok" : "unavailable");
    put(state, Role.PREFILL, prefill);
    put(state, Role.DECODE, router.decode());
    call.respond(good ? 200 : 503, Call.JSON, Json.bytes(state));
  }

  private static void put(ObjectNode state, Role role, NodeGroup group) {
    state.putObject(role.label()).put("up", group.up()).put("endpoints", group.nodes().size());
  }
}
