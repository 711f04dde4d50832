package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.BooleanNode;
import com.fasterxml.jackson.databind.node.TextNode;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.disagg.server.ApiException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The fields that completions and chat completions have in common. */
final class SamplingFields {

  private static final int MOST = Integer.MAX_VALUE;
  private static final double ANY = Double.MAX_VALUE;
  private static final int MOST_STOPS = 64;

  private SamplingFields() {}

  /**
   * Reads how to sample.
   *
   * @param maxBatchSize the most samples that the engine can compute together
   */
  static void read(Fields fields, SamplingParams.Builder params, int maxBatchSize) {
    Double temperature = fields.number("temperature", 0, ANY);
    if (temperature != null) {
      params.temperature(temperature.doubleValue());
    }
    Double topP = fields.number("top_p", 0, 1);
    if (topP != null) {
      params.topP(topP.doubleValue());
    }
    Double minP = fields.number("min_p", 0, 1);
    if (minP != null) {
      params.minP(minP.doubleValue());
    }
    Integer topK = fields.integer("top_k", -1, MOST);
    if (topK != null) {
      params.topK(Math.max(0, topK)); // -1 is another name for all
    }
    readPenalties(fields, params);
    params.seed(fields.longInteger("seed"));
    Integer n = fields.integer("n", 1, Math.min(SamplingParams.MAX_N, maxBatchSize));
    if (n != null) {
      params.n(n);
    }
    readEnds(fields, params);
    readBias(fields, params);
    JsonNode skip = fields.take("skip_special_tokens");
    if (skip != null) {
      params.skipSpecialTokens(fields.flag("skip_special_tokens"));
    }
    params.truncatePromptTokens(fields.integer("truncate_prompt_tokens", 1, MOST));
  }

  private static void readPenalties(Fields fields, SamplingParams.Builder params) {
    Double presence = fields.number("presence_penalty", -ANY, ANY);
    if (presence != null) {
      params.presencePenalty(presence.doubleValue());
    }
    Double frequency = fields.number("frequency_penalty", -ANY, ANY);
    if (frequency != null) {
      params.frequencyPenalty(frequency.doubleValue());
    }
    Double repetition = fields.number("repetition_penalty", 0, ANY);
    if (repetition != null) {
      params.repetitionPenalty(repetition.doubleValue());
    }
  }

  private static void readEnds(Fields fields, SamplingParams.Builder params) {
    JsonNode stop = fields.take("stop");
    if (stop != null) {
      params.stop(texts(stop, fields.path("stop")));
    }
    JsonNode stopIds = fields.take("stop_token_ids");
    if (stopIds != null) {
      params.stopTokenIds(ids(stopIds, fields.path("stop_token_ids")));
    }
    params.includeStopInOutput(fields.flag("include_stop_str_in_output"));
    params.ignoreEos(fields.flag("ignore_eos"));
    Integer minTokens = fields.integer("min_tokens", 0, MOST);
    if (minTokens != null) {
      params.minTokens(minTokens);
    }
  }

  private static void readBias(Fields fields, SamplingParams.Builder params) {
    JsonNode bias = fields.take("logit_bias");
    if (bias == null) {
      return;
    }
    String name = fields.path("logit_bias");
    if (!bias.isObject()) {
      throw Fields.wrong(name, "an object", bias);
    }
    Map<Integer, Float> values = new LinkedHashMap<>();
    for (Map.Entry<String, JsonNode> entry : bias.properties()) {
      if (!entry.getKey().matches("\\d{1,9}")) {
        throw ApiException.invalid(name, "'" + name + "' must have token ids as its keys");
      }
      double value = Fields.number(entry.getValue(), name, -Float.MAX_VALUE, Float.MAX_VALUE);
      values.put(Integer.valueOf(entry.getKey()), (float) value);
    }
    params.logitBias(values);
  }

  /** Refuses what would change the answer and can't be done; lets pass what changes nothing. */
  static void readIrrelevant(Fields fields) {
    fields.text("user");
    fields.text("safety_identifier");
    fields.text("prompt_cache_key");
    fields.allowOnly("store", BooleanNode.FALSE, "nothing is stored");
    JsonNode tier = fields.take("service_tier");
    if (tier != null && !tier.equals(TextNode.valueOf("auto"))) {
      fields.allowOnly("service_tier", TextNode.valueOf("default"), "there is one tier");
    }
  }

  /** Reads whether the answer is streamed with its usage at the end. */
  static boolean streamUsage(Fields fields, boolean stream) {
    JsonNode node = fields.take("stream_options");
    if (node == null) {
      return false;
    }
    if (!stream) {
      throw ApiException.invalid(
          "stream_options", "'stream_options' is for streams only; set 'stream' to true");
    }
    Fields options = Fields.of(node, "stream_options");
    boolean usage = options.flag("include_usage");
    options.allowOnly("include_obfuscation", BooleanNode.FALSE, "events are not padded");
    options.refuseOthers();
    return usage;
  }

  private static List<String> texts(JsonNode node, String name) {
    if (node.isTextual()) {
      return List.of(node.textValue());
    }
    if (!node.isArray()) {
      throw Fields.wrong(name, "a string or an array of strings", node);
    }
    if (node.size() > MOST_STOPS) {
      throw ApiException.invalid(name, "'" + name + "' has more than " + MOST_STOPS + " strings");
    }
    List<String> texts = new ArrayList<>();
    for (JsonNode each : node) {
      if (!each.isTextual()) {
        throw Fields.wrong(name, "a string or an array of strings", each);
      }
      texts.add(each.textValue());
    }
    return texts;
  }

  private static List<Integer> ids(JsonNode node, String name) {
    if (!node.isArray()) {
      throw Fields.wrong(name, "an array of token ids", node);
    }
    List<Integer> ids = new ArrayList<>();
    for (JsonNode each : node) {
      ids.add(Fields.integer(each, name, 0, MOST));
    }
    return ids;
  }
}
