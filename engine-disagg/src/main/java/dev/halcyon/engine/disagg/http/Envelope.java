package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.disagg.server.Json;
import java.util.List;
import java.util.Locale;
import java.util.UUID;

/**
 * What is around the choices of an answer and of its events.
 *
 * @param id the answer's
 * @param created when, in seconds since 1970
 * @param model the model's name
 */
record Envelope(String id, long created, String model) {

  static Envelope of(String prefix, String model) {
    String random = UUID.randomUUID().toString().replace("-", "");
    return new Envelope(prefix + random, System.currentTimeMillis() / 1000, model);
  }

  /**
   * @param object what OpenAI calls this kind of answer
   */
  ObjectNode with(String object, ArrayNode choices) {
    ObjectNode node = Json.object();
    node.put("id", id).put("object", object).put("created", created).put("model", model);
    node.set("choices", choices);
    return node;
  }

  /**
   * Adds the usage of all prompts together.
   *
   * @param generated whether what was generated is part of the answer
   */
  static void putUsage(ObjectNode node, List<GenerationResult> results, boolean generated) {
    int prompt = 0;
    int cached = 0;
    int completion = 0;
    for (GenerationResult result : results) {
      prompt += result.usage().promptTokens();
      cached += result.usage().cachedPromptTokens();
      completion += generated ? result.usage().generatedTokens() : 0;
    }
    node.putObject("usage")
        .put("prompt_tokens", prompt)
        .put("completion_tokens", completion)
        .put("total_tokens", prompt + completion)
        .putObject("prompt_tokens_details")
        .put("cached_tokens", cached);
  }

  /** STOP and LENGTH as OpenAI calls them; the others never end a good answer. */
  static String finishReason(FinishReason reason) {
    return reason == null ? null : reason.name().toLowerCase(Locale.ROOT);
  }

  static ArrayNode ids(List<Integer> ids) {
    ArrayNode array = Json.array();
    ids.forEach(array::add);
    return array;
  }
}
