package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.Call;
import dev.halcyon.engine.disagg.server.Json;

/** Reads what clients ask of one model, and gives the form of the answer. */
final class ApiReader {

  /** The two ways to ask. */
  enum Api {
    COMPLETIONS("/v1/completions"),
    CHAT("/v1/chat/completions");

    final String path;

    Api(String path) {
      this.path = path;
    }
  }

  /**
   * A request's body.
   *
   * @param json as it came
   * @param split its disaggregated_params, or null
   */
  record Body(Api api, ObjectNode json, ApiRequest request, JsonNode split) {}

  private final Engine engine;
  private final String modelName;
  private final CompletionParser completions;
  private final ChatParser chats;
  private final LogprobsWriter logprobs;
  private final long maxLogitsBytes;
  private final LogitsRoom room;

  ApiReader(Engine engine, HttpOptions options, String modelName) {
    this.engine = engine;
    this.modelName = modelName;
    this.completions = new CompletionParser(engine, options);
    this.chats = new ChatParser(engine, options);
    this.logprobs = new LogprobsWriter(new TokenTexts(engine));
    this.maxLogitsBytes = Math.min(options.maxLogitsBytes(), options.maxInFlightLogitsBytes());
    this.room = new LogitsRoom(options.maxInFlightLogitsBytes());
  }

  /**
   * @throws ApiException if something in it is wrong or not supported, or has no room
   */
  Body read(Call call, Api api) {
    engine.requireOpen();
    return read(call, Json.parseObject(call.body()), api);
  }

  /** Reads a body of either kind: chats have messages. */
  Body read(Call call) {
    engine.requireOpen();
    ObjectNode json = Json.parseObject(call.body());
    return read(call, json, json.hasNonNull("messages") ? Api.CHAT : Api.COMPLETIONS);
  }

  private Body read(Call call, ObjectNode json, Api api) {
    Fields fields = new Fields(json, "");
    String model = fields.text("model");
    if (model != null && !model.equals(modelName)) {
      throw unknownModel();
    }
    JsonNode split = fields.take(SplitFields.NAME);
    ApiRequest request = api == Api.CHAT ? chats.parse(fields) : completions.parse(fields);
    room.take(call, LogitsFields.bytes(request, engine, maxLogitsBytes));
    return new Body(api, json, request, split);
  }

  AnswerFormat format(Api api, ApiRequest request) {
    return api == Api.CHAT
        ? new ChatFormat(request, logprobs, modelName)
        : new CompletionFormat(request, logprobs, modelName);
  }

  ApiException unknownModel() {
    return new ApiException(
        404,
        "invalid_request_error",
        "model_not_found",
        "model",
        "There is no such model here; '" + modelName + "' is served");
  }
}
