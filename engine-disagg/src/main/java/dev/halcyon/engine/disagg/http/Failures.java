package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.EngineClosedException;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.EngineFailedException;
import dev.halcyon.engine.IncompleteContextLogitsException;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.QueueFullException;
import dev.halcyon.engine.RequestOutOfMemoryException;
import dev.halcyon.engine.RequestTooLargeException;
import dev.halcyon.engine.UnsupportedRequestException;
import dev.halcyon.engine.disagg.codec.WireFormatException;
import dev.halcyon.engine.disagg.server.ApiException;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What a client is told of an error of the engine. */
final class Failures {

  private static final Logger LOG = LoggerFactory.getLogger(Failures.class);

  /** The engine's names of parameters that are called otherwise in requests. */
  private static final Map<String, String> WIRE_NAMES =
      Map.ofEntries(
          Map.entry("maxTokens", "max_tokens"),
          Map.entry("minTokens", "min_tokens"),
          Map.entry("temperature", "temperature"),
          Map.entry("topK", "top_k"),
          Map.entry("topP", "top_p"),
          Map.entry("minP", "min_p"),
          Map.entry("repetitionPenalty", "repetition_penalty"),
          Map.entry("presencePenalty", "presence_penalty"),
          Map.entry("frequencyPenalty", "frequency_penalty"),
          Map.entry("n", "n"),
          Map.entry("stop", "stop"),
          Map.entry("stopTokenIds", "stop_token_ids"),
          Map.entry("logitBias", "logit_bias"),
          Map.entry("logprobs", "logprobs"),
          Map.entry("promptLogprobs", "prompt_logprobs"),
          Map.entry("truncatePromptTokens", "truncate_prompt_tokens"));

  private static final Pattern NAMED = Pattern.compile("([a-zA-Z]+) is (.*)", Pattern.DOTALL);
  private static final Pattern PROMPT =
      Pattern.compile("the prompt is empty.*|prompt token \\d+ is .*", Pattern.DOTALL);

  private Failures() {}

  static ApiException of(Throwable failure) {
    Throwable e = failure;
    while (e instanceof CompletionException && e.getCause() != null) {
      e = e.getCause();
    }
    if (e instanceof ApiException known) {
      return known;
    } else if (e instanceof WireFormatException wire) {
      return ApiException.invalid(wire.field(), wire.getMessage());
    } else if (e instanceof IllegalArgumentException) {
      return invalid(e.getMessage());
    } else if (e instanceof UnsupportedRequestException
        || e instanceof IncompleteContextLogitsException) {
      return ApiException.refused(400, "unsupported", e.getMessage());
    } else if (e instanceof RequestTooLargeException) {
      return ApiException.refused(400, "context_length_exceeded", e.getMessage());
    } else if (e instanceof QueueFullException) {
      return ApiException.queueFull(e.getMessage());
    } else if (e instanceof EngineClosedException) {
      return ApiException.failed(503, "engine_closed", "The engine is closed");
    } else if (e instanceof EngineFailedException) {
      return ApiException.failed(503, "engine_failed", "The engine failed and has to be restarted");
    } else if (e instanceof KvTransferException transfer) {
      return transfer(transfer);
    } else if (e instanceof RequestOutOfMemoryException) {
      return ApiException.failed(503, "out_of_memory", e.getMessage());
    }
    LOG.error("A request failed", e);
    return ApiException.failed(
        500, null, e instanceof EngineException ? e.getMessage() : "Internal error");
  }

  /** Keys and values that did not come from the engine that computed the prompt. */
  private static ApiException transfer(KvTransferException e) {
    String code = "kv_transfer_" + e.reason().name().toLowerCase(Locale.ROOT);
    return switch (e.reason()) {
      case REFUSED -> ApiException.refused(400, code, e.getMessage());
      // Nothing is wrong with the request, but its prompt has to be computed again.
      case UNKNOWN -> ApiException.refused(409, code, e.getMessage());
      case TIMEOUT -> ApiException.failed(504, code, e.getMessage());
      case PEER_LOST, CANCELLED, CORRUPT, CLOSED -> {
        LOG.warn("A prompt's keys and values did not arrive: {}", e.getMessage());
        yield ApiException.failed(
            502, code, "The prompt's keys and values did not arrive from where they were computed");
      }
    };
  }

  /** The engine's messages begin with the parameter's name. */
  private static ApiException invalid(String message) {
    if (message == null) {
      return ApiException.invalid(null, "The request is not valid");
    }
    Matcher named = NAMED.matcher(message);
    if (named.matches() && WIRE_NAMES.containsKey(named.group(1))) {
      String name = WIRE_NAMES.get(named.group(1));
      return ApiException.invalid(name, "'" + name + "' is " + named.group(2));
    }
    return ApiException.invalid(PROMPT.matcher(message).matches() ? "prompt" : null, message);
  }
}
