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
      putIds(choice, output.tokenIds());
      LogitsFields.putGenerated(choice, request, output.generationLogits());
      putPrompt(choice, PromptScores.of(result), output.index());
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
    private PromptScores scores = PromptScores.NONE;

    @Override
    public List<ObjectNode> of(GenerationDelta delta) {
      scores = scores.orOf(delta);
      List<ObjectNode> events = new ArrayList<>();
      int index = delta.index();
      if (!begun[index]) {
        begun[index] = true;
        ObjectNode choice = Json.object().put("index", index);
        choice.putObject("delta").put("role", "assistant").put("content", "");
        putEnd(choice, null, null);
        putIds(choice, List.of());
        putPrompt(choice, scores, index);
        events.add(chunk(choice));
      }
      boolean scored = delta.logprobs() != null && !delta.logprobs().isEmpty();
      boolean ids =
          (request.tokenIds() || request.params().returnGenerationLogits())
              && !delta.tokenIds().isEmpty();
      if (!delta.text().isEmpty() || scored || ids) {
        ObjectNode choice = Json.object().put("index", index);
        choice.putObject("delta").put("content", delta.text());
        putEnd(choice, delta.logprobs(), null);
        putIds(choice, delta.tokenIds());
        LogitsFields.putGenerated(choice, request, delta.generationLogits());
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

  private void putIds(ObjectNode choice, List<Integer> ids) {
    if (request.tokenIds()) {
      choice.set("token_ids", Envelope.ids(ids));
    }
  }

  /** What there is to say of the prompt: in the first choice, and but for logits in each. */
  private void putPrompt(ObjectNode choice, PromptScores scores, int index) {
    if (request.promptLogprobs() != null && scores.logprobs() != null) {
      choice.set("prompt_logprobs", logprobs.prompt(scores.shifted(), request.promptLogprobs()));
    }
    if (request.tokenIds()) {
      int[] prompt = request.prompts().get(0).ids();
      choice.set("prompt_token_ids", Envelope.ids(Arrays.stream(prompt).boxed().toList()));
    }
    if (index == 0) {
      LogitsFields.putContext(choice, request, scores.logits());
    }
  }
}
