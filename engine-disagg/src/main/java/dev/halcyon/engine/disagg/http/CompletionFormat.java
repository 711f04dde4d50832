package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationDelta;
import dev.halcyon.engine.GenerationOutput;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.TokenLogprobs;
import dev.halcyon.engine.disagg.http.ApiRequest.Prompt;
import dev.halcyon.engine.disagg.server.Json;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** OpenAI's completions. A stream's chunks, joined, are the whole answer. */
final class CompletionFormat implements AnswerFormat {

  private static final String OBJECT = "text_completion";

  private final ApiRequest request;
  private final LogprobsWriter logprobs;
  private final Envelope envelope;

  CompletionFormat(ApiRequest request, LogprobsWriter logprobs, String model) {
    this.request = request;
    this.logprobs = logprobs;
    this.envelope = Envelope.of("cmpl-", model);
  }

  @Override
  public ObjectNode whole(List<GenerationResult> results) {
    ArrayNode choices = Json.array();
    for (int i = 0; i < results.size(); i++) {
      GenerationResult result = results.get(i);
      for (GenerationOutput output : result.outputs()) {
        Choice choice = new Choice(i, output.index());
        choices.add(choice.next(Piece.of(output), PromptScores.of(result)));
      }
    }
    ObjectNode node = envelope.with(OBJECT, choices);
    Envelope.putUsage(node, results, !request.promptOnly());
    return node;
  }

  @Override
  public Chunks chunks(int prompt) {
    return new PromptChunks(prompt);
  }

  @Override
  public ObjectNode usageChunk(List<GenerationResult> results) {
    ObjectNode node = envelope.with(OBJECT, Json.array());
    Envelope.putUsage(node, results, !request.promptOnly());
    return node;
  }

  /** The events of one prompt's choices. */
  private final class PromptChunks implements Chunks {

    private final List<Choice> choices = new ArrayList<>();
    private PromptScores scores = PromptScores.NONE;

    PromptChunks(int prompt) {
      for (int i = 0; i < request.params().n(); i++) {
        choices.add(new Choice(prompt, i));
      }
    }

    @Override
    public List<ObjectNode> of(GenerationDelta delta) {
      scores = scores.orOf(delta);
      Choice choice = choices.get(delta.index());
      boolean shows =
          !delta.text().isEmpty()
              || delta.finishReason() != null
              || (request.echo() && !choice.begun)
              || (showsTokens() && !delta.tokenIds().isEmpty());
      if (!shows) {
        return List.of();
      }
      ObjectNode next = choice.next(Piece.of(delta), scores);
      ObjectNode node = envelope.with(OBJECT, Json.array().add(next));
      if (request.streamUsage()) {
        node.putNull("usage");
      }
      return List.of(node);
    }

    private boolean showsTokens() {
      return request.tokenIds()
          || request.topLogprobs() != null
          || request.params().returnGenerationLogits();
    }
  }

  /** One choice, piece by piece or as a whole. */
  private final class Choice {

    private final Prompt prompt;
    private final int index;
    private final TextOffsets offsets = new TextOffsets();
    private boolean begun;

    Choice(int promptIndex, int sample) {
      this.prompt = request.prompts().get(promptIndex);
      this.index = promptIndex * request.params().n() + sample;
    }

    /** The choice's next piece. */
    ObjectNode next(Piece piece, PromptScores scores) {
      boolean first = !begun;
      begun = true;
      boolean echoes = first && request.echo();
      boolean silent = request.promptOnly();
      FinishReason reason = piece.finishReason();
      ObjectNode node = Json.object().put("index", index);
      node.put("text", (echoes ? prompt.text() : "") + (silent ? "" : piece.text()));
      node.set(
          "logprobs", logprobs(echoes ? scores.shifted() : null, piece.ids(), piece.logprobs()));
      node.put(
          "finish_reason",
          Envelope.finishReason(silent && reason != null ? FinishReason.LENGTH : reason));
      if (first) {
        putPrompt(node, scores);
      }
      if (request.tokenIds()) {
        node.set("token_ids", Envelope.ids(silent ? List.of() : piece.ids()));
      }
      LogitsFields.putGenerated(node, request, silent ? null : piece.logits());
      return node;
    }

    /** What there is to say of the prompt: in its first choice, and but for logits in each. */
    private void putPrompt(ObjectNode node, PromptScores scores) {
      if (request.promptLogprobs() != null && scores.logprobs() != null) {
        node.set("prompt_logprobs", logprobs.prompt(scores.shifted(), request.promptLogprobs()));
      }
      if (request.tokenIds()) {
        node.set("prompt_token_ids", Envelope.ids(promptIds()));
      }
      if (index % request.params().n() == 0) {
        LogitsFields.putContext(node, request, scores.logits());
      }
    }

    private ObjectNode logprobs(
        List<TokenLogprobs> echoed, List<Integer> ids, List<TokenLogprobs> ofIds) {
      Integer top = request.topLogprobs();
      if (top == null) {
        return null;
      }
      ObjectNode node = Json.object();
      if (echoed != null) {
        logprobs.addCompletion(promptIds(), echoed, top, offsets, false, node);
      }
      boolean specialShow = !request.params().skipSpecialTokens();
      boolean silent = request.promptOnly() || ofIds == null;
      logprobs.addCompletion(
          silent ? List.of() : ids, silent ? List.of() : ofIds, top, offsets, specialShow, node);
      return node;
    }

    private List<Integer> promptIds() {
      return Arrays.stream(prompt.ids()).boxed().toList();
    }
  }
}
