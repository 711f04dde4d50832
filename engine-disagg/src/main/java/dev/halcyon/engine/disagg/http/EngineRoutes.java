package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.disagg.http.ApiReader.Api;
import dev.halcyon.engine.disagg.http.ApiReader.Body;
import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.Call;
import dev.halcyon.engine.disagg.server.Endpoint;
import dev.halcyon.engine.disagg.server.Json;
import dev.halcyon.engine.disagg.server.Route;
import io.netty.handler.codec.http.QueryStringDecoder;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executor;

/** The endpoints of one engine, for the part that it has in requests. */
final class EngineRoutes implements AutoCloseable {

  private static final String MODELS = "/v1/models";

  private final Engine engine;
  private final HttpOptions options;
  private final ServiceMetrics metrics;
  private final Endpoint metricsEndpoint;
  private final String modelName;
  private final long created = System.currentTimeMillis() / 1000;
  private final ApiReader reader;
  private final DecodeRole decode;

  /**
   * @param metricsEndpoint answers with all metrics
   * @param workers for what would hold up others
   */
  EngineRoutes(
      Engine engine,
      HttpOptions options,
      ServiceMetrics metrics,
      Endpoint metricsEndpoint,
      Executor workers) {
    this.engine = engine;
    this.options = options;
    this.metrics = metrics;
    this.metricsEndpoint = metricsEndpoint;
    this.modelName = modelName(engine, options);
    this.reader = new ApiReader(engine, options, modelName);
    this.decode =
        options.hasRole(SplitOptions.Role.DECODE)
            ? new DecodeRole(engine, reader, options, metrics, workers)
            : null;
  }

  List<Route> routes() {
    List<Route> routes = new ArrayList<>();
    routes.add(Route.openGet("/health", this::health));
    routes.add(Route.get("/metrics", metricsEndpoint));
    routes.add(Route.get(MODELS, this::models));
    routes.add(Route.get(MODELS + "/*", this::model));
    if (options.hasRole(SplitOptions.Role.PREFILL)) {
      routes.addAll(new PrefillRole(engine, reader, options, metrics).routes());
    } else {
      for (Api api : Api.values()) {
        routes.add(Route.post(api.path, call -> generate(call, api)));
      }
    }
    return routes;
  }

  private void generate(Call call, Api api) {
    Body body = reader.read(call, api);
    if (body.split() == null) {
      ApiRequest request = body.request();
      new Generation(call, request, reader.format(api, request), metrics, () -> {})
          .start(engine, options.requestTimeout());
    } else if (decode != null) {
      decode.generate(call, body);
    } else {
      throw ApiException.invalid(
          SplitFields.NAME,
          "'" + SplitFields.NAME + "' is for a decode server; this one does whole requests");
    }
  }

  private void health(Call call) {
    try {
      engine.requireOpen();
    } catch (EngineException e) {
      throw Failures.of(e);
    }
    call.respond(200, Call.JSON, Json.bytes(Json.object().put("status", "ok")));
  }

  private void models(Call call) {
    ObjectNode list = Json.object().put("object", "list");
    list.putArray("data").add(description());
    call.respond(200, Call.JSON, Json.bytes(list));
  }

  private void model(Call call) {
    // Names may have characters that a path can't.
    String path = QueryStringDecoder.decodeComponent(call.path());
    if (!path.equals(MODELS + "/" + modelName)) {
      throw reader.unknownModel();
    }
    call.respond(200, Call.JSON, Json.bytes(description()));
  }

  private ObjectNode description() {
    return Json.object()
        .put("id", modelName)
        .put("object", "model")
        .put("created", created)
        .put("owned_by", "halcyon")
        .put("max_model_len", engine.maxSequenceLength());
  }

  private static String modelName(Engine engine, HttpOptions options) {
    if (options.modelName() != null) {
      return options.modelName();
    }
    return engine.options().model() == null
        ? "default"
        : engine.options().model().toAbsolutePath().normalize().getFileName().toString();
  }

  @Override
  public void close() {
    if (decode != null) {
      decode.close();
    }
  }
}
