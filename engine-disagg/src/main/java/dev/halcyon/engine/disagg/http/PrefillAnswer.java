package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.EventStream;
import dev.halcyon.engine.disagg.server.Json;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;

/**
 * What a prefill server says of a request's prompts: first where they are to be had, and when they
 * are computed their first tokens. Each part may end with an ApiException instead. Safe for use by
 * several threads.
 */
final class PrefillAnswer {

  private static final byte[] DONE = EventStream.DONE.getBytes(StandardCharsets.UTF_8);

  private final CompletableFuture<JsonNode> offers = new CompletableFuture<>();
  private final CompletableFuture<JsonNode> firstTokens = new CompletableFuture<>();

  CompletableFuture<JsonNode> offers() {
    return offers;
  }

  CompletableFuture<JsonNode> firstTokens() {
    return firstTokens;
  }

  /** Nobody waits for it any longer: what did not come ends with a CancellationException. */
  void cancel() {
    offers.cancel(false);
    firstTokens.cancel(false);
  }

  /** Whether nothing more is waited for. */
  boolean isWhole() {
    return firstTokens.isDone();
  }

  void fail(ApiException error) {
    offers.completeExceptionally(error);
    firstTokens.completeExceptionally(error);
  }

  /** Takes one of the answer's events. */
  void event(byte[] data) {
    if (Arrays.equals(data, DONE)) {
      return;
    }
    ObjectNode json;
    try {
      json = Json.parseObject(data);
    } catch (ApiException e) {
      fail(PrefillClient.unusable("an event that is no JSON"));
      return;
    }
    if (json.has("error")) {
      JsonNode error = json.get("error");
      fail(PrefillClient.refusal(error.path("status").asInt(), error));
    } else if (!offers.complete(json)) {
      firstTokens.complete(json);
    }
  }
}
