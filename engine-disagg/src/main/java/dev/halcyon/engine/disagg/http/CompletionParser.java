package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.JsonNode;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.disagg.codec.WireType;
import dev.halcyon.engine.disagg.http.ApiRequest.Prompt;
import dev.halcyon.engine.disagg.server.ApiException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Reads requests for completions. */
final class CompletionParser {

  /** As OpenAI has it. */
  private static final int DEFAULT_MAX_TOKENS = 16;

  private final Engine engine;
  private final HttpOptions options;

  CompletionParser(Engine engine, HttpOptions options) {
    this.engine = engine;
    this.options = options;
  }

  /**
   * @throws ApiException if something in it is wrong or not supported
   */
  ApiRequest parse(Fields fields) {
    SamplingParams.Builder builder = SamplingParams.builder();
    SamplingFields.read(fields, builder, engine.options().maxBatchSize());
    boolean echo = fields.flag("echo");
    Integer maxTokens = fields.integer("max_tokens", echo ? 0 : 1, Integer.MAX_VALUE);
    boolean promptOnly = maxTokens != null && maxTokens == 0;
    builder.maxTokens(maxTokens == null ? DEFAULT_MAX_TOKENS : Math.max(1, maxTokens));
    Integer top = fields.integer("logprobs", 0, options.maxLogprobs());
    Integer promptTop = fields.integer("prompt_logprobs", 0, options.maxLogprobs());
    builder.logprobs(top);
    builder.promptLogprobs(echo ? larger(top, promptTop) : promptTop);
    boolean stream = fields.flag("stream");
    boolean streamUsage = SamplingFields.streamUsage(fields, stream);
    String cacheSalt = fields.text("cache_salt");
    Integer priority = fields.integer("priority", Integer.MIN_VALUE, Integer.MAX_VALUE);
    boolean tokenIds = fields.flag("return_token_ids");
    WireType logitsType = LogitsFields.read(fields, builder);
    JsonNode prompt = fields.take("prompt");
    refuseWhatCantBeDone(fields);
    SamplingParams params = builder.build();
    refuseOtherBestOf(fields, params.n());
    fields.refuseOthers();
    params.requireFits(engine.vocabSize());
    return new ApiRequest(
        prompts(prompt, params.truncatePromptTokens(), echo),
        params,
        cacheSalt,
        priority == null ? 0 : priority,
        stream,
        streamUsage,
        echo,
        promptOnly,
        top,
        promptTop,
        tokenIds,
        logitsType);
  }

  private static Integer larger(Integer a, Integer b) {
    return a == null || b != null && b > a ? b : a;
  }

  private static void refuseWhatCantBeDone(Fields fields) {
    SamplingFields.readIrrelevant(fields);
    fields.allowOnly("suffix", null, "text can't be inserted");
  }

  private static void refuseOtherBestOf(Fields fields, int n) {
    Integer bestOf = fields.integer("best_of", 1, Integer.MAX_VALUE);
    if (bestOf != null && bestOf != n) {
      throw ApiException.invalid("best_of", "'best_of' is supported as equal to 'n' only");
    }
  }

  private List<Prompt> prompts(JsonNode node, Integer keep, boolean echo) {
    if (node == null) {
      throw ApiException.invalid("prompt", "'prompt' is missing");
    }
    List<Prompt> prompts = new ArrayList<>();
    if (node.isTextual()) {
      prompts.add(ofText(node.textValue(), keep, echo));
    } else if (!node.isArray()) {
      throw wrongPrompt(node);
    } else if (node.isEmpty()) {
      throw ApiException.invalid("prompt", "'prompt' is empty");
    } else if (node.get(0).isNumber()) {
      prompts.add(ofIds(node, keep, echo));
    } else {
      if (node.size() > options.maxPrompts()) {
        throw ApiException.invalid(
            "prompt", "'prompt' has more than " + options.maxPrompts() + " prompts");
      }
      for (JsonNode each : node) {
        if (each.isTextual() && node.get(0).isTextual()) {
          prompts.add(ofText(each.textValue(), keep, echo));
        } else if (each.isArray() && node.get(0).isArray()) {
          prompts.add(ofIds(each, keep, echo));
        } else {
          throw wrongPrompt(each);
        }
      }
    }
    return prompts;
  }

  private Prompt ofText(String text, Integer keep, boolean echo) {
    int[] ids = engine.promptIds(GenerationRequest.builder(text).build());
    int[] kept = truncated(ids, keep);
    String shown = kept.length == ids.length ? text : engine.detokenize(kept);
    return checked(new Prompt(kept, echo ? shown : null));
  }

  private Prompt ofIds(JsonNode array, Integer keep, boolean echo) {
    int[] ids = new int[array.size()];
    for (int i = 0; i < ids.length; i++) {
      ids[i] = Fields.integer(array.get(i), "prompt", 0, engine.vocabSize() - 1);
    }
    int[] kept = truncated(ids, keep);
    return checked(new Prompt(kept, echo ? engine.detokenize(kept) : null));
  }

  private Prompt checked(Prompt prompt) {
    requireFits(engine, prompt.ids().length, "prompt");
    return prompt;
  }

  /** Requires a prompt that leaves room for a token. */
  static void requireFits(Engine engine, int length, String param) {
    if (length == 0) {
      throw ApiException.invalid(param, "'" + param + "' is empty; it needs at least one token");
    }
    if (length >= engine.maxSequenceLength()) {
      throw new ApiException(
          400,
          "invalid_request_error",
          "context_length_exceeded",
          param,
          String.format(
              "'%s' has %d tokens; this model's sequences have up to %d, with at least one to be"
                  + " generated",
              param, length, engine.maxSequenceLength()));
    }
  }

  static int[] truncated(int[] ids, Integer keep) {
    return keep == null || keep >= ids.length
        ? ids
        : Arrays.copyOfRange(ids, ids.length - keep, ids.length);
  }

  private static ApiException wrongPrompt(JsonNode node) {
    return Fields.wrong(
        "prompt", "a string, an array of strings, of token ids, or of arrays of token ids", node);
  }
}
