package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.disagg.codec.LogitsCodec;
import dev.halcyon.engine.disagg.codec.LogitsTensor;
import dev.halcyon.engine.disagg.codec.WireType;
import dev.halcyon.engine.disagg.http.ApiRequest.Prompt;
import dev.halcyon.engine.disagg.server.ApiException;

/** The fields with which clients ask for logits, and those that answer them. */
final class LogitsFields {

  private static final String GENERATION = "return_generation_logits";
  private static final String CONTEXT = "return_context_logits";
  private static final String TYPE = "logits_dtype";
  private static final LogitsCodec CODEC =
      new LogitsCodec(LogitsCodec.ANY_VOCABULARY, LogitsCodec.MAX_BYTES);

  private LogitsFields() {}

  /** Reads what is wanted; returns the type of its elements. */
  static WireType read(Fields fields, SamplingParams.Builder params) {
    params.returnGenerationLogits(fields.flag(GENERATION));
    params.returnContextLogits(fields.flag(CONTEXT));
    String name = fields.text(TYPE);
    WireType type = name == null ? WireType.FLOAT32 : WireType.named(name);
    if (type == null) {
      throw ApiException.invalid(
          fields.path(TYPE),
          "'" + fields.path(TYPE) + "' must be \"float32\", \"float16\" or \"bfloat16\"");
    }
    return type;
  }

  /**
   * How many bytes, as float32, the logits of a request may come to.
   *
   * @throws ApiException if that is more than the server allows
   */
  static long bytes(ApiRequest request, Engine engine, long maxBytes) {
    SamplingParams params = request.params();
    long context = 0;
    long generated = 0;
    for (Prompt prompt : request.prompts()) {
      int length = prompt.ids().length;
      context += params.returnContextLogits() ? length : 0;
      int most = Math.min(params.maxTokens(), engine.maxSequenceLength() - length);
      generated += params.returnGenerationLogits() ? (long) params.n() * most : 0;
    }
    long bytes = (context + generated) * engine.vocabSize() * Float.BYTES;
    if (bytes > maxBytes) {
      String field = context > generated ? CONTEXT : GENERATION;
      throw ApiException.invalid(
          field,
          String.format(
              "'%s': the logits of %d prompt tokens and of up to %d generated ones are %d bytes as"
                  + " float32; this server allows %d",
              field, context, generated, bytes, maxBytes));
    }
    return bytes;
  }

  /** Adds a choice's own logits, if they are wanted; null where there are no tokens. */
  static void putGenerated(ObjectNode choice, ApiRequest request, LogitsView view) {
    if (request.params().returnGenerationLogits()) {
      choice.set("generation_logits", tensor(view, request.logitsType()));
    }
  }

  /** Adds a prompt's logits, if they are wanted, and closes them: they are said once. */
  static void putContext(ObjectNode choice, ApiRequest request, LogitsView view) {
    if (request.params().returnContextLogits() && view != null) {
      choice.set("context_logits", tensor(view, request.logitsType()));
      view.close();
    }
  }

  private static JsonNode tensor(LogitsView view, WireType type) {
    return view == null || view.rows() == 0 ? null : CODEC.toJson(LogitsTensor.of(view, type));
  }
}
