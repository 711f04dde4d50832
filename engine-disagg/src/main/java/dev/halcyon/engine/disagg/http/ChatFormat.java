package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationDelta;
import dev.halcyon.engine.GenerationOutput;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.TokenLogprobs;
import dev.halcyon.engine.disagg.server.Json;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** OpenAI's chat completions. A stream's chunks, joined, are the whole answer. */
final class ChatFormat implements AnswerFormat {

  private static final String CHUNK = "chat.completion.chunk";

  private final ApiRequest request;
  private final LogprobsWriter logprobs;
  private final Envelope envelope;

  ChatFormat(ApiRequest request, LogprobsWriter logprobs, String model) {
    this.request = request;
    this.logprobs = logprobs;
    this.envelope = Envelope.of("chatcmpl-", model);
  }

  @Override
  public ObjectNode whole(List<GenerationResult> results) {
    ArrayNode choices = Json.array();
    GenerationResult result = results.get(0);
    for (GenerationOutput output : result.outputs()) {
      ObjectNode choice = choices.addObject().put("index", output.index());
      choice
          .putObject("message")
          .put("role", "assistant")
          .put("content", output.text())
          .putNull("refusal");
      putEnd(choice, output.logprobs(), output.finishReason());
      putIds(choice, output.tokenIds(), true);
      putPrompt(choice, result.promptLogprobs());
    }
    ObjectNode node = envelope.with("chat.completion", choices);
    Envelope.putUsage(node, results, true);
    return node;
  }

  @Override
  public Chunks chunks(int prompt) {
    return new ConversationChunks();
  }

  @Override
  public ObjectNode usageChunk(List<GenerationResult> results) {
    ObjectNode node = envelope.with(CHUNK, Json.array());
    Envelope.putUsage(node, results, true);
    return node;
  }

  /** The events: the role, then pieces of content, then the reason of the end. */
  private final class ConversationChunks implements Chunks {

    private final boolean[] begun = new boolean[request.params().n()];
    private List<TokenLogprobs> ofPrompt;

    @Override
    public List<ObjectNode> of(GenerationDelta delta) {
      if (delta.promptLogprobs() != null) {
        ofPrompt = delta.promptLogprobs();
      }
      List<ObjectNode> events = new ArrayList<>();
      int index = delta.index();
      if (!begun[index]) {
        begun[index] = true;
        ObjectNode choice = Json.object().put("index", index);
        choice.putObject("delta").put("role", "assistant").put("content", "");
        putEnd(choice, null, null);
        putIds(choice, List.of(), true);
        putPrompt(choice, ofPrompt);
        events.add(chunk(choice));
      }
      boolean scored = delta.logprobs() != null && !delta.logprobs().isEmpty();
      boolean ids = request.tokenIds() && !delta.tokenIds().isEmpty();
      if (!delta.text().isEmpty() || scored || ids) {
        ObjectNode choice = Json.object().put("index", index);
        choice.putObject("delta").put("content", delta.text());
        putEnd(choice, delta.logprobs(), null);
        putIds(choice, delta.tokenIds(), false);
        events.add(chunk(choice));
      }
      if (delta.finishReason() != null) {
        ObjectNode choice = Json.object().put("index", index);
        choice.putObject("delta");
        putEnd(choice, null, delta.finishReason());
        events.add(chunk(choice));
      }
      return events;
    }

    private ObjectNode chunk(ObjectNode choice) {
      ObjectNode node = envelope.with(CHUNK, Json.array().add(choice));
      if (request.streamUsage()) {
        node.putNull("usage");
      }
      return node;
    }
  }

  private void putEnd(ObjectNode choice, List<TokenLogprobs> entries, FinishReason reason) {
    boolean scored = entries != null && request.topLogprobs() != null;
    choice.set("logprobs", scored ? logprobs.chat(entries, request.topLogprobs()) : null);
    choice.put("finish_reason", Envelope.finishReason(reason));
  }

  private void putIds(ObjectNode choice, List<Integer> ids, boolean withPrompt) {
    if (request.tokenIds()) {
      choice.set("token_ids", Envelope.ids(ids));
      if (withPrompt) {
        int[] prompt = request.prompts().get(0).ids();
        choice.set("prompt_token_ids", Envelope.ids(Arrays.stream(prompt).boxed().toList()));
      }
    }
  }

  private void putPrompt(ObjectNode choice, List<TokenLogprobs> ofPrompt) {
    if (request.promptLogprobs() != null && ofPrompt != null) {
      choice.set(
          "prompt_logprobs",
          logprobs.prompt(CompletionFormat.shifted(ofPrompt), request.promptLogprobs()));
    }
  }
}
