package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.Call;
import dev.halcyon.engine.disagg.server.Endpoint;
import dev.halcyon.engine.disagg.server.Json;
import dev.halcyon.engine.disagg.server.Route;
import io.netty.handler.codec.http.QueryStringDecoder;
import java.util.List;
import java.util.function.BiFunction;
import java.util.function.Function;

/** The endpoints of one engine that does all of a request. */
final class EngineRoutes {

  private static final String MODELS = "/v1/models";

  private final Engine engine;
  private final HttpOptions options;
  private final ServiceMetrics metrics;
  private final Endpoint metricsEndpoint;
  private final String modelName;
  private final long created = System.currentTimeMillis() / 1000;
  private final LogprobsWriter logprobs;

  /**
   * @param metricsEndpoint answers with all metrics
   */
  EngineRoutes(
      Engine engine, HttpOptions options, ServiceMetrics metrics, Endpoint metricsEndpoint) {
    this.engine = engine;
    this.options = options;
    this.metrics = metrics;
    this.metricsEndpoint = metricsEndpoint;
    this.modelName = modelName(engine, options);
    this.logprobs = new LogprobsWriter(new TokenTexts(engine));
  }

  List<Route> routes() {
    CompletionParser completions = new CompletionParser(engine, options);
    ChatParser chats = new ChatParser(engine, options);
    return List.of(
        Route.openGet("/health", this::health),
        Route.get("/metrics", metricsEndpoint),
        Route.get(MODELS, this::models),
        Route.get(MODELS + "/*", this::model),
        Route.post(
            "/v1/completions",
            call ->
                generate(
                    call,
                    completions::parse,
                    (request, model) -> new CompletionFormat(request, logprobs, model))),
        Route.post(
            "/v1/chat/completions",
            call ->
                generate(
                    call,
                    chats::parse,
                    (request, model) -> new ChatFormat(request, logprobs, model))));
  }

  private void generate(
      Call call,
      Function<Fields, ApiRequest> parser,
      BiFunction<ApiRequest, String, AnswerFormat> format) {
    engine.requireOpen();
    Fields fields = new Fields(Json.parseObject(call.body()), "");
    String model = fields.text("model");
    if (model != null && !model.equals(modelName)) {
      throw unknownModel();
    }
    ApiRequest request = parser.apply(fields);
    new Generation(call, request, format.apply(request, modelName), metrics)
        .start(engine, options.requestTimeout());
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
      throw unknownModel();
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

  private ApiException unknownModel() {
    return new ApiException(
        404,
        "invalid_request_error",
        "model_not_found",
        "model",
        "There is no such model here; '" + modelName + "' is served");
  }

  private static String modelName(Engine engine, HttpOptions options) {
    if (options.modelName() != null) {
      return options.modelName();
    }
    return engine.options().model() == null
        ? "default"
        : engine.options().model().toAbsolutePath().normalize().getFileName().toString();
  }
}
