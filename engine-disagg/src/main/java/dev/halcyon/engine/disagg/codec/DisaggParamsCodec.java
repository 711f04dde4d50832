package dev.halcyon.engine.disagg.codec;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.DisaggRequestType;
import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.Usage;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Set;

/**
 * {@link DisaggParams} as a JSON object, what services know as {@code disaggregated_params}. Its
 * fields, of which those that are null are left out:
 *
 * <ul>
 *   <li>{@code request_type}: "context_only", "generation_only" or "context_and_generation"
 *   <li>{@code request_id}: string
 *   <li>{@code schedule_style}: "context_first" (the default) or "generation_first"
 *   <li>{@code seed}: the decimal of a 64-bit integer, as a string
 *   <li>{@code first_gen_tokens}: token ids, one for each output
 *   <li>{@code first_gen_logprobs}, {@code prompt_logprobs}: {@code [{"token_id": 5, "entries":
 *       [[id, logprob, rank], ...]}, ...]}
 *   <li>{@code first_gen_logits}: tensors, {@code context_logits}: one, as in {@link LogitsCodec}
 *   <li>{@code kv_descriptor}: base64
 *   <li>{@code usage}: {@code {"prompt_tokens", "cached_prompt_tokens", "generated_tokens"}}
 * </ul>
 *
 * <p>Logits are written as float32 and read in any of the types. Safe for use by several threads.
 */
public final class DisaggParamsCodec {

  /** Most outputs that a request's parameters may speak of. */
  static final int MAX_SAMPLES = LogitsCodec.MAX_TENSORS;

  private static final Set<String> KEYS =
      Set.of(
          "request_type",
          "request_id",
          "schedule_style",
          "seed",
          "first_gen_tokens",
          "first_gen_logprobs",
          "first_gen_logits",
          "context_logits",
          "prompt_logprobs",
          "kv_descriptor",
          "usage");
  private static final Set<String> USAGE_KEYS =
      Set.of("prompt_tokens", "cached_prompt_tokens", "generated_tokens");

  private final int vocabSize;
  private final LogitsCodec logits;
  private final LogprobsCodec logprobs;
  private final WireJson json;

  /**
   * @param vocabSize of the model, or {@link LogitsCodec#ANY_VOCABULARY}
   * @param maxLogitsBytes of each field's logits
   * @param maxTextBytes of the JSON as a whole
   */
  public DisaggParamsCodec(int vocabSize, long maxLogitsBytes, long maxTextBytes) {
    this.vocabSize = vocabSize;
    this.logits = new LogitsCodec(vocabSize, maxLogitsBytes);
    this.logprobs = new LogprobsCodec(vocabSize);
    this.json = new WireJson(maxTextBytes);
  }

  /**
   * Parameters as a JSON object. Logits are read, not closed.
   *
   * @throws IllegalStateException if logits are closed
   */
  public ObjectNode toJson(DisaggParams params) {
    ObjectNode object = WireJson.object();
    object.put("request_type", WireJson.lower(params.requestType()));
    object.put("request_id", params.requestId());
    object.put("schedule_style", WireJson.lower(params.scheduleStyle()));
    if (params.seed() != null) {
      object.put("seed", params.seed().toString());
    }
    if (!params.firstGenTokens().isEmpty()) {
      ArrayNode tokens = object.putArray("first_gen_tokens");
      params.firstGenTokens().forEach(tokens::add);
    }
    if (params.firstGenLogprobs() != null) {
      logprobs.write(params.firstGenLogprobs(), object.putArray("first_gen_logprobs"));
    }
    if (params.firstGenLogits() != null) {
      ArrayNode tensors = object.putArray("first_gen_logits");
      params.firstGenLogits().forEach(view -> tensors.add(logits.toJson(LogitsTensor.of(view))));
    }
    if (params.contextLogits() != null) {
      object.set("context_logits", logits.toJson(LogitsTensor.of(params.contextLogits())));
    }
    if (params.promptLogprobs() != null) {
      logprobs.write(params.promptLogprobs(), object.putArray("prompt_logprobs"));
    }
    if (params.kvDescriptor() != null) {
      object.put(
          "kv_descriptor", Base64.getEncoder().encodeToString(params.kvDescriptor().bytes()));
    }
    if (params.usage() != null) {
      object.set("usage", usage(params.usage()));
    }
    return object;
  }

  /** Parameters as UTF-8 JSON. */
  public byte[] toJsonBytes(DisaggParams params) {
    return json.write(toJson(params));
  }

  /**
   * The parameters that UTF-8 JSON holds.
   *
   * @param field what to call it in errors
   * @throws WireFormatException if it holds none
   */
  public DisaggParams fromJsonBytes(byte[] text, String field) {
    return fromJson(json.parse(text, field), field);
  }

  /**
   * The parameters that a JSON object is.
   *
   * @param field the object's path, for errors
   * @throws WireFormatException if it is none
   */
  public DisaggParams fromJson(JsonNode node, String field) {
    ObjectNode object = WireJson.requireObject(node, field, KEYS);
    DisaggRequestType type =
        WireJson.choice(
            object.get("request_type"), field + ".request_type", DisaggRequestType.values());
    String id =
        WireJson.text(object.get("request_id"), field + ".request_id", DisaggParams.MAX_REQUEST_ID);
    DisaggParams.Builder builder = DisaggParams.builder(type, id);
    if (object.has("schedule_style")) {
      builder.scheduleStyle(
          WireJson.choice(
              object.get("schedule_style"), field + ".schedule_style", ScheduleStyle.values()));
    }
    builder.seed(seed(object.get("seed"), field + ".seed"));
    readFirstTokens(object, field, builder);
    readPrompt(object, field, builder);
    builder.kvDescriptor(descriptor(object.get("kv_descriptor"), field + ".kv_descriptor"));
    builder.usage(usage(object.get("usage"), field + ".usage"));
    try {
      return builder.build();
    } catch (IllegalArgumentException e) {
      throw new WireFormatException(field, e.getMessage());
    }
  }

  private void readFirstTokens(ObjectNode object, String field, DisaggParams.Builder builder) {
    if (object.has("first_gen_tokens")) {
      builder.firstGenTokens(tokens(object.get("first_gen_tokens"), field + ".first_gen_tokens"));
    }
    if (object.has("first_gen_logprobs")) {
      builder.firstGenLogprobs(
          logprobs.read(object.get("first_gen_logprobs"), field + ".first_gen_logprobs"));
    }
    if (object.has("first_gen_logits")) {
      List<LogitsView> views = new ArrayList<>();
      List<LogitsTensor> tensors =
          logits.listFromJson(object.get("first_gen_logits"), field + ".first_gen_logits");
      for (int i = 0; i < tensors.size(); i++) {
        if (tensors.get(i).rows() != 1) {
          throw new WireFormatException(
              field + ".first_gen_logits[" + i + "].shape",
              "must have one row, has " + tensors.get(i).rows());
        }
        views.add(tensors.get(i).view());
      }
      builder.firstGenLogits(views);
    }
  }

  private void readPrompt(ObjectNode object, String field, DisaggParams.Builder builder) {
    if (object.has("context_logits")) {
      builder.contextLogits(
          logits.fromJson(object.get("context_logits"), field + ".context_logits").view());
    }
    if (object.has("prompt_logprobs")) {
      builder.promptLogprobs(
          logprobs.read(object.get("prompt_logprobs"), field + ".prompt_logprobs"));
    }
  }

  private List<Integer> tokens(JsonNode node, String field) {
    if (!(node instanceof ArrayNode array) || array.isEmpty() || array.size() > MAX_SAMPLES) {
      throw new WireFormatException(field, "must be an array of 1 to " + MAX_SAMPLES + " ids");
    }
    List<Integer> tokens = new ArrayList<>(array.size());
    for (int i = 0; i < array.size(); i++) {
      tokens.add(WireJson.tokenId(array.get(i), field + "[" + i + "]", vocabSize));
    }
    return tokens;
  }

  private static Long seed(JsonNode node, String field) {
    if (node == null) {
      return null;
    }
    String text = WireJson.text(node, field, 20);
    try {
      return Long.valueOf(text);
    } catch (NumberFormatException e) {
      throw new WireFormatException(field, "must be the decimal of a 64-bit integer");
    }
  }

  private static KvDescriptor descriptor(JsonNode node, String field) {
    if (node == null) {
      return null;
    }
    String text = WireJson.text(node, field, 2 * KvDescriptor.MAX_BYTES);
    try {
      return new KvDescriptor(Base64.getDecoder().decode(text));
    } catch (IllegalArgumentException e) {
      throw new WireFormatException(field, "is not base64 of a descriptor: " + e.getMessage());
    }
  }

  static ObjectNode usage(Usage usage) {
    return WireJson.object()
        .put("prompt_tokens", usage.promptTokens())
        .put("cached_prompt_tokens", usage.cachedPromptTokens())
        .put("generated_tokens", usage.generatedTokens());
  }

  static Usage usage(JsonNode node, String field) {
    if (node == null) {
      return null;
    }
    ObjectNode object = WireJson.requireObject(node, field, USAGE_KEYS);
    int prompt =
        WireJson.integer(
            object.get("prompt_tokens"), field + ".prompt_tokens", 1, Integer.MAX_VALUE);
    return new Usage(
        prompt,
        WireJson.integer(
            object.get("cached_prompt_tokens"), field + ".cached_prompt_tokens", 0, prompt),
        WireJson.integer(
            object.get("generated_tokens"), field + ".generated_tokens", 0, Integer.MAX_VALUE));
  }
}
