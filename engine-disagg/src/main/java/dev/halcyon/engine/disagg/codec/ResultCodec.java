package dev.halcyon.engine.disagg.codec;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationOutput;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.RequestTiming;
import dev.halcyon.engine.TokenLogprobs;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/**
 * The result of a context-only request whose first token ended every output, as a JSON object: what
 * a decode engine has nothing to add to. Its fields, of which those that are null are left out:
 *
 * <ul>
 *   <li>{@code outputs}: by index, objects of {@code text}, {@code token_ids}, {@code
 *       finish_reason} ("stop" or "length"), {@code logprobs} and {@code generation_logits}
 *   <li>{@code context_logits}, {@code prompt_logprobs}, {@code usage}: as in {@link
 *       DisaggParamsCodec}
 * </ul>
 *
 * <p>Which stop string or id it was, and how long it took, stay behind. Safe for use by several
 * threads.
 */
public final class ResultCodec {

  private static final Set<String> KEYS =
      Set.of("outputs", "context_logits", "prompt_logprobs", "usage");
  private static final Set<String> OUTPUT_KEYS =
      Set.of("text", "token_ids", "finish_reason", "logprobs", "generation_logits");
  private static final RequestTiming NO_TIMING =
      new RequestTiming(Duration.ZERO, null, Duration.ZERO, 0);

  private final int vocabSize;
  private final int maxTextLength;
  private final LogitsCodec logits;
  private final LogprobsCodec logprobs;

  /**
   * @param vocabSize of the model
   * @param maxLogitsBytes of each field's logits
   * @param maxTextLength characters of an output
   */
  public ResultCodec(int vocabSize, long maxLogitsBytes, int maxTextLength) {
    this.vocabSize = vocabSize;
    this.maxTextLength = maxTextLength;
    this.logits = new LogitsCodec(vocabSize, maxLogitsBytes);
    this.logprobs = new LogprobsCodec(vocabSize);
  }

  /** A result as a JSON object. Logits are read, not closed. */
  public ObjectNode toJson(GenerationResult result) {
    ObjectNode object = WireJson.object();
    ArrayNode outputs = object.putArray("outputs");
    for (GenerationOutput output : result.outputs()) {
      ObjectNode node = outputs.addObject().put("text", output.text());
      ArrayNode ids = node.putArray("token_ids");
      output.tokenIds().forEach(ids::add);
      node.put("finish_reason", WireJson.lower(output.finishReason()));
      if (output.logprobs() != null) {
        logprobs.write(output.logprobs(), node.putArray("logprobs"));
      }
      if (output.generationLogits() != null && output.generationLogits().rows() > 0) {
        node.set("generation_logits", logits.toJson(LogitsTensor.of(output.generationLogits())));
      }
    }
    if (result.contextLogits() != null) {
      object.set("context_logits", logits.toJson(LogitsTensor.of(result.contextLogits())));
    }
    if (result.promptLogprobs() != null) {
      logprobs.write(result.promptLogprobs(), object.putArray("prompt_logprobs"));
    }
    object.set("usage", DisaggParamsCodec.usage(result.usage()));
    return object;
  }

  /**
   * The result that a JSON object is.
   *
   * @param field the object's path, for errors
   * @param promptIds of its prompt
   * @throws WireFormatException if it is none
   */
  public GenerationResult fromJson(JsonNode node, String field, List<Integer> promptIds) {
    ObjectNode object = WireJson.requireObject(node, field, KEYS);
    if (!(object.get("outputs") instanceof ArrayNode array)
        || array.isEmpty()
        || array.size() > DisaggParamsCodec.MAX_SAMPLES) {
      throw new WireFormatException(
          field + ".outputs",
          "must be an array of 1 to " + DisaggParamsCodec.MAX_SAMPLES + " outputs");
    }
    List<GenerationOutput> outputs = new ArrayList<>();
    for (int i = 0; i < array.size(); i++) {
      outputs.add(output(array.get(i), field + ".outputs[" + i + "]", i));
    }
    if (!object.has("usage")) {
      throw new WireFormatException(field + ".usage", "is missing");
    }
    return new GenerationResult(
        0,
        promptIds,
        outputs,
        view(object, "context_logits", field),
        object.has("prompt_logprobs")
            ? logprobs.read(object.get("prompt_logprobs"), field + ".prompt_logprobs")
            : null,
        DisaggParamsCodec.usage(object.get("usage"), field + ".usage"),
        NO_TIMING,
        null);
  }

  private GenerationOutput output(JsonNode node, String field, int index) {
    ObjectNode object = WireJson.requireObject(node, field, OUTPUT_KEYS);
    if (!(object.get("token_ids") instanceof ArrayNode ids) || ids.size() > 1) {
      throw new WireFormatException(field + ".token_ids", "must be an array of at most one id");
    }
    List<Integer> tokens = new ArrayList<>();
    for (JsonNode id : ids) {
      tokens.add(WireJson.tokenId(id, field + ".token_ids", vocabSize));
    }
    List<TokenLogprobs> scores =
        object.has("logprobs") ? logprobs.read(object.get("logprobs"), field + ".logprobs") : null;
    if (scores != null && !scores.stream().map(TokenLogprobs::tokenId).toList().equals(tokens)) {
      throw new WireFormatException(field + ".logprobs", "must score the token_ids");
    }
    LogitsView rows = view(object, "generation_logits", field);
    if (rows != null && rows.rows() != tokens.size()) {
      throw new WireFormatException(
          field + ".generation_logits.shape",
          "must have a row for each of " + tokens.size() + " tokens, has " + rows.rows());
    }
    return new GenerationOutput(
        index,
        WireJson.text(object.get("text"), field + ".text", maxTextLength),
        tokens,
        WireJson.choice(
            object.get("finish_reason"),
            field + ".finish_reason",
            new FinishReason[] {FinishReason.STOP, FinishReason.LENGTH}),
        null,
        null,
        scores,
        rows);
  }

  private LogitsView view(ObjectNode object, String name, String field) {
    return object.has(name) ? logits.fromJson(object.get(name), field + "." + name).view() : null;
  }
}
