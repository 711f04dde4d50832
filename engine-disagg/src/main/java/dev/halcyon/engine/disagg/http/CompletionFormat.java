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
import java.util.Collections;
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
        choices.add(
            choice.next(
                output.text(),
                output.tokenIds(),
                output.logprobs(),
                output.finishReason(),
                result.promptLogprobs()));
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
    private List<TokenLogprobs> ofPrompt;

    PromptChunks(int prompt) {
      for (int i = 0; i < request.params().n(); i++) {
        choices.add(new Choice(prompt, i));
      }
    }

    @Override
    public List<ObjectNode> of(GenerationDelta delta) {
      if (delta.promptLogprobs() != null) {
        ofPrompt = delta.promptLogprobs();
      }
      Choice choice = choices.get(delta.index());
      boolean shows =
          !delta.text().isEmpty()
              || delta.finishReason() != null
              || (request.echo() && !choice.begun)
              || ((request.tokenIds() || request.topLogprobs() != null)
                  && !delta.tokenIds().isEmpty());
      if (!shows) {
        return List.of();
      }
      ObjectNode next =
          choice.next(
              delta.text(), delta.tokenIds(), delta.logprobs(), delta.finishReason(), ofPrompt);
      ObjectNode node = envelope.with(OBJECT, Json.array().add(next));
      if (request.streamUsage()) {
        node.putNull("usage");
      }
      return List.of(node);
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

    /**
     * The choice's next piece.
     *
     * @param ofPrompt the prompt's logprobs as the engine gives them, or null
     */
    ObjectNode next(
        String text,
        List<Integer> ids,
        List<TokenLogprobs> ofIds,
        FinishReason reason,
        List<TokenLogprobs> ofPrompt) {
      boolean first = !begun;
      begun = true;
      boolean echoes = first && request.echo();
      boolean silent = request.promptOnly();
      ObjectNode node = Json.object().put("index", index);
      node.put("text", (echoes ? prompt.text() : "") + (silent ? "" : text));
      List<TokenLogprobs> shifted = ofPrompt == null ? null : shifted(ofPrompt);
      node.set("logprobs", logprobs(echoes ? shifted : null, ids, ofIds));
      node.put(
          "finish_reason",
          Envelope.finishReason(silent && reason != null ? FinishReason.LENGTH : reason));
      if (first && request.promptLogprobs() != null && shifted != null) {
        node.set("prompt_logprobs", logprobs.prompt(shifted, request.promptLogprobs()));
      }
      if (request.tokenIds()) {
        node.set("token_ids", Envelope.ids(silent ? List.of() : ids));
        if (first) {
          node.set("prompt_token_ids", Envelope.ids(promptIds()));
        }
      }
      return node;
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

  /** With entry i scoring token i: none for the first, and without the first generated token's. */
  static List<TokenLogprobs> shifted(List<TokenLogprobs> ofPrompt) {
    List<TokenLogprobs> shifted = new ArrayList<>(ofPrompt.size());
    shifted.add(null);
    shifted.addAll(ofPrompt.subList(0, ofPrompt.size() - 1));
    return Collections.unmodifiableList(shifted);
  }
}
