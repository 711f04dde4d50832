package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.DisaggRequestType;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.GenerationOutput;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.Usage;
import dev.halcyon.engine.disagg.codec.DisaggParamsCodec;
import dev.halcyon.engine.disagg.codec.LogitsCodec;
import dev.halcyon.engine.disagg.codec.ResultCodec;
import dev.halcyon.engine.disagg.codec.WireFormatException;
import dev.halcyon.engine.disagg.http.ApiRequest.Prompt;
import dev.halcyon.engine.disagg.server.Json;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;

/**
 * What a prefill server hands to a decode server, as JSON: {@code {"request_type":
 * "generation_only", "request_id": ID, "prompts": [...]}}, for each of the request's prompts {@code
 * {"prompt_token_ids": [...]}} with either {@code "rest"}, as {@link DisaggParamsCodec} writes it,
 * or {@code "result"}, as {@link ResultCodec} does. What is only offered yet has the same form,
 * with {@code "offer"} in their place.
 */
final class HandoverCodec {

  private static final String ROOT = SplitFields.NAME + "." + SplitFields.PROMPTS;
  private static final String IDS = "prompt_token_ids";

  private final int vocabSize;
  private final int maxSequenceLength;
  private final DisaggParamsCodec params;
  private final ResultCodec results;

  HandoverCodec(Engine engine, int maxBytes) {
    this.vocabSize = engine.vocabSize();
    this.maxSequenceLength = engine.maxSequenceLength();
    long logitsBytes = Math.min(maxBytes, LogitsCodec.MAX_BYTES);
    this.params = new DisaggParamsCodec(vocabSize, logitsBytes, maxBytes);
    this.results = new ResultCodec(vocabSize, logitsBytes, maxBytes);
  }

  /** Logits are read, not closed. */
  ObjectNode toJson(String requestId, List<GenerationResult> all) {
    ObjectNode object = head(requestId);
    ArrayNode prompts = object.putArray(SplitFields.PROMPTS);
    for (GenerationResult result : all) {
      ObjectNode prompt = prompt(prompts, result.promptIds().stream().mapToInt(id -> id));
      if (result.disaggParams() != null) {
        prompt.set("rest", params.toJson(result.disaggParams()));
      } else {
        prompt.set("result", results.toJson(result));
      }
    }
    return object;
  }

  /** What is on offer before it is computed, for each of a request's prompts. */
  ObjectNode offersToJson(String requestId, List<Prompt> prompts, List<DisaggParams> offers) {
    ObjectNode object = head(requestId);
    ArrayNode array = object.putArray(SplitFields.PROMPTS);
    for (int i = 0; i < offers.size(); i++) {
      prompt(array, IntStream.of(prompts.get(i).ids())).set("offer", params.toJson(offers.get(i)));
    }
    return object;
  }

  private static ObjectNode prompt(ArrayNode prompts, IntStream ids) {
    ObjectNode prompt = prompts.addObject();
    ids.forEach(prompt.putArray(IDS)::add);
    return prompt;
  }

  private static ObjectNode head(String requestId) {
    return Json.object()
        .put(SplitFields.TYPE, SplitFields.GENERATION_ONLY)
        .put(SplitFields.REQUEST_ID, requestId);
  }

  /**
   * Reads what was handed over for a request.
   *
   * @param samePrompts whether its prompts' ids have to be the request's
   * @throws WireFormatException if it is not sound, or another request's
   */
  List<Prompt> fromJson(JsonNode handedOver, ApiRequest request, boolean samePrompts) {
    ArrayNode array = prompts(handedOver, request);
    List<Prompt> prompts = new ArrayList<>();
    for (int i = 0; i < array.size(); i++) {
      String field = field(i);
      Handover handover = handover(array.get(i), field, request.params());
      prompts.add(prompt(request, i, handover, samePrompts));
    }
    return prompts;
  }

  /**
   * Reads what is on offer for a request, whose first tokens are to come.
   *
   * @param samePrompts whether its prompts' ids have to be the request's
   * @throws WireFormatException if it is not sound, or another request's
   */
  List<Prompt> offersFromJson(JsonNode offered, ApiRequest request, boolean samePrompts) {
    ArrayNode array = prompts(offered, request);
    List<Prompt> prompts = new ArrayList<>();
    for (int i = 0; i < array.size(); i++) {
      String field = field(i);
      Fields fields = Fields.of(array.get(i), field);
      int[] ids = ids(fields.take(IDS), field + "." + IDS);
      DisaggParams offer = rest(fields.take("offer"), field + ".offer", ids.length);
      fields.refuseOthers();
      require(
          offer.scheduleStyle() == ScheduleStyle.GENERATION_FIRST && offer.kvDescriptor() != null,
          field + ".offer",
          "must be one of a prompt that is being computed");
      Handover handover = new Handover(ids, offer, new CompletableFuture<>(), null);
      prompts.add(prompt(request, i, handover, samePrompts));
    }
    return prompts;
  }

  /**
   * Gives prompts that were on offer their first tokens, if those of all of them are sound.
   *
   * @param request with its prompts as {@link #offersFromJson} read them
   * @throws WireFormatException if they are not, or another request's
   */
  void completeFromJson(JsonNode handedOver, ApiRequest request) {
    List<Prompt> prompts = fromJson(handedOver, request, true);
    for (int i = 0; i < prompts.size(); i++) {
      require(prompts.get(i).handover().rest() != null, field(i), "must have rest");
    }
    for (int i = 0; i < prompts.size(); i++) {
      DisaggParams rest = prompts.get(i).handover().rest();
      request.prompts().get(i).handover().firstTokens().complete(rest);
    }
  }

  private static String field(int prompt) {
    return ROOT + "[" + prompt + "]";
  }

  private static ArrayNode prompts(JsonNode node, ApiRequest request) {
    int asked = request.prompts().size();
    if (!(node instanceof ArrayNode array) || array.size() != asked) {
      throw new WireFormatException(
          ROOT, "must be an array with an entry for each of the " + asked + " prompts");
    }
    return array;
  }

  private static Prompt prompt(ApiRequest request, int i, Handover handover, boolean samePrompts) {
    Prompt asked = request.prompts().get(i);
    require(
        !samePrompts || Arrays.equals(handover.promptIds(), asked.ids()),
        field(i) + "." + IDS,
        "are not those of the request's prompt");
    return new Prompt(handover.promptIds(), asked.text(), handover);
  }

  private Handover handover(JsonNode node, String field, SamplingParams asked) {
    Fields fields = Fields.of(node, field);
    int[] ids = ids(fields.take(IDS), field + "." + IDS);
    JsonNode rest = fields.take("rest");
    JsonNode result = fields.take("result");
    fields.refuseOthers();
    if ((rest == null) == (result == null)) {
      throw new WireFormatException(field, "must have one of rest and result");
    }
    if (rest != null) {
      return new Handover(ids, rest(rest, field + ".rest", ids.length), null, null);
    }
    GenerationResult ended =
        results.fromJson(result, field + ".result", IntStream.of(ids).boxed().toList());
    requireFits(ended, field + ".result", asked);
    return new Handover(ids, null, null, ended);
  }

  private DisaggParams rest(JsonNode node, String field, int promptLength) {
    DisaggParams rest = params.fromJson(node, field);
    if (rest.requestType() != DisaggRequestType.GENERATION_ONLY) {
      throw new WireFormatException(field + ".request_type", "must be generation_only");
    }
    if (rest.usage() != null) {
      requireUsage(rest.usage(), field, promptLength);
    }
    return rest;
  }

  private int[] ids(JsonNode node, String field) {
    if (!(node instanceof ArrayNode array) || array.isEmpty()) {
      throw new WireFormatException(field, "must be an array of token ids");
    }
    if (array.size() >= maxSequenceLength) {
      throw new WireFormatException(
          field, "must be fewer than the " + maxSequenceLength + " tokens of the longest sequence");
    }
    int[] ids = new int[array.size()];
    for (int i = 0; i < ids.length; i++) {
      ids[i] = Fields.integer(array.get(i), field, 0, vocabSize - 1);
    }
    return ids;
  }

  /** What an engine checks of the rest of a request, for a result that no engine sees again. */
  private static void requireFits(GenerationResult result, String field, SamplingParams asked) {
    int length = result.promptIds().size();
    require(result.outputs().size() == asked.n(), field + ".outputs", "must be n outputs");
    for (GenerationOutput output : result.outputs()) {
      String where = field + ".outputs[" + output.index() + "]";
      require(
          asked.logprobs() == null || output.logprobs() != null, where, "lacks the logprobs asked");
      require(
          !asked.returnGenerationLogits()
              || output.tokenIds().isEmpty()
              || output.generationLogits() != null,
          where,
          "lacks the generation_logits asked for");
    }
    require(
        !asked.returnContextLogits()
            || result.contextLogits() != null && result.contextLogits().rows() == length,
        field + ".context_logits",
        "must have a row for each token of the prompt");
    require(
        asked.promptLogprobs() == null
            || result.promptLogprobs() != null && result.promptLogprobs().size() == length,
        field + ".prompt_logprobs",
        "must have an entry for each token of the prompt");
    requireUsage(result.usage(), field, length);
  }

  private static void requireUsage(Usage usage, String field, int promptLength) {
    require(
        usage.promptTokens() == promptLength,
        field + ".usage.prompt_tokens",
        "must be the prompt's number of tokens");
  }

  private static void require(boolean holds, String field, String problem) {
    if (!holds) {
      throw new WireFormatException(field, problem);
    }
  }
}
