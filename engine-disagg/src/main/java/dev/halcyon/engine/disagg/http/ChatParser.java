package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.TextNode;
import dev.halcyon.engine.ChatMessage;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.UnsupportedRequestException;
import dev.halcyon.engine.disagg.codec.WireType;
import dev.halcyon.engine.disagg.http.ApiRequest.Prompt;
import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.Json;
import java.util.ArrayList;
import java.util.List;

/** Reads requests for chat completions. */
final class ChatParser {

  private static final List<String> TOOLS =
      List.of("tools", "functions", "function_call", "parallel_tool_calls");

  private final Engine engine;
  private final HttpOptions options;

  ChatParser(Engine engine, HttpOptions options) {
    this.engine = engine;
    this.options = options;
  }

  /**
   * @throws ApiException if something in it is wrong or not supported
   */
  ApiRequest parse(Fields fields) {
    SamplingParams.Builder builder = SamplingParams.builder();
    SamplingFields.read(fields, builder, engine.options().maxBatchSize());
    builder.maxTokens(maxTokens(fields));
    Integer top = topLogprobs(fields);
    Integer promptTop = fields.integer("prompt_logprobs", 0, options.maxLogprobs());
    builder.logprobs(top).promptLogprobs(promptTop);
    boolean stream = fields.flag("stream");
    boolean streamUsage = SamplingFields.streamUsage(fields, stream);
    String cacheSalt = fields.text("cache_salt");
    Integer priority = fields.integer("priority", Integer.MIN_VALUE, Integer.MAX_VALUE);
    boolean tokenIds = fields.flag("return_token_ids");
    WireType logitsType = LogitsFields.read(fields, builder);
    List<ChatMessage> messages = messages(fields.take("messages"));
    refuseWhatCantBeDone(fields);
    fields.refuseOthers();
    SamplingParams params = builder.build();
    params.requireFits(engine.vocabSize());
    return new ApiRequest(
        List.of(new Prompt(promptIds(messages, params), null)),
        params,
        cacheSalt,
        priority == null ? 0 : priority,
        stream,
        streamUsage,
        false,
        false,
        top,
        promptTop,
        tokenIds,
        logitsType);
  }

  /** By either name; as much as there is room for, if it is left out. */
  private static int maxTokens(Fields fields) {
    Integer now = fields.integer("max_completion_tokens", 1, Integer.MAX_VALUE);
    Integer before = fields.integer("max_tokens", 1, Integer.MAX_VALUE);
    if (now != null && before != null && !now.equals(before)) {
      throw ApiException.invalid(
          "max_tokens", "'max_tokens' and 'max_completion_tokens' are both given, and differ");
    }
    Integer most = now == null ? before : now;
    return most == null ? Integer.MAX_VALUE : most;
  }

  private Integer topLogprobs(Fields fields) {
    boolean wanted = fields.flag("logprobs");
    Integer top = fields.integer("top_logprobs", 0, options.maxLogprobs());
    if (top != null && !wanted) {
      throw ApiException.invalid("top_logprobs", "'top_logprobs' needs 'logprobs' to be true");
    }
    return wanted ? Integer.valueOf(top == null ? 0 : top) : null;
  }

  private static void refuseWhatCantBeDone(Fields fields) {
    SamplingFields.readIrrelevant(fields);
    TOOLS.forEach(name -> fields.allowOnly(name, null, "the model can't call tools here"));
    fields.allowOnly("tool_choice", TextNode.valueOf("none"), "the model can't call tools here");
    fields.allowOnly(
        "response_format", Json.object().put("type", "text"), "text is the only format");
    fields.allowOnly("modalities", Json.array().add("text"), "text is the only modality");
  }

  private int[] promptIds(List<ChatMessage> messages, SamplingParams params) {
    int[] ids;
    try {
      ids = engine.promptIds(GenerationRequest.builder(messages).build());
    } catch (UnsupportedRequestException e) {
      throw ApiException.refused(400, "no_chat_template", e.getMessage());
    } catch (IllegalArgumentException e) {
      throw ApiException.invalid(
          "messages", "The model's chat template refuses the messages: " + e.getMessage());
    } catch (EngineException e) {
      if (e.getClass() != EngineException.class) {
        throw e;
      }
      throw ApiException.invalid("messages", e.getMessage());
    }
    int[] kept = CompletionParser.truncated(ids, params.truncatePromptTokens());
    CompletionParser.requireFits(engine, kept.length, "messages");
    return kept;
  }

  private static List<ChatMessage> messages(JsonNode node) {
    if (node == null) {
      throw ApiException.invalid("messages", "'messages' is missing");
    }
    if (!node.isArray()) {
      throw Fields.wrong("messages", "an array", node);
    }
    if (node.isEmpty()) {
      throw ApiException.invalid("messages", "'messages' is empty");
    }
    List<ChatMessage> messages = new ArrayList<>();
    for (int i = 0; i < node.size(); i++) {
      messages.add(message(Fields.of(node.get(i), "messages[" + i + "]")));
    }
    return messages;
  }

  private static ChatMessage message(Fields fields) {
    String role = fields.text("role");
    if (role == null) {
      throw ApiException.invalid(fields.path("role"), "'" + fields.path("role") + "' is missing");
    }
    String known =
        switch (role) {
          case "system", "developer" -> "system"; // one role by its old and its new name
          case "user", "assistant" -> role;
          default ->
              throw ApiException.invalid(
                  fields.path("role"),
                  "'" + fields.path("role") + "' must be system, developer, user or assistant");
        };
    String content = content(fields.take("content"), fields.path("content"));
    fields.refuseOthers();
    return new ChatMessage(known, content);
  }

  private static String content(JsonNode node, String name) {
    if (node == null) {
      throw ApiException.invalid(name, "'" + name + "' is missing");
    }
    if (node.isTextual()) {
      return node.textValue();
    }
    if (!node.isArray()) {
      throw Fields.wrong(name, "a string or an array of text parts", node);
    }
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < node.size(); i++) {
      Fields part = Fields.of(node.get(i), name + "[" + i + "]");
      String type = part.text("type");
      if (!"text".equals(type)) {
        throw ApiException.invalid(
            part.path("type"), "'" + part.path("type") + "' must be text, all that is supported");
      }
      String piece = part.text("text");
      if (piece == null) {
        throw ApiException.invalid(part.path("text"), "'" + part.path("text") + "' is missing");
      }
      text.append(piece);
      part.refuseOthers();
    }
    return text.toString();
  }
}
