package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.TokenLogprobs;
import dev.halcyon.engine.TokenLogprobs.Entry;
import dev.halcyon.engine.disagg.http.TokenTexts.Token;
import dev.halcyon.engine.disagg.server.Json;
import java.util.List;
import java.util.Map;

/** Logprobs in OpenAI's forms. */
final class LogprobsWriter {

  /** What stands for negative infinity, which JSON has no number for. */
  private static final float LEAST = -9999f;

  private final TokenTexts texts;

  LogprobsWriter(TokenTexts texts) {
    this.texts = texts;
  }

  /**
   * Chat's form: for each token its text, bytes and logprob, and those of the likeliest ones.
   *
   * @param top how many of those
   */
  ObjectNode chat(List<TokenLogprobs> logprobs, int top) {
    ObjectNode node = Json.object();
    ArrayNode content = node.putArray("content");
    for (TokenLogprobs each : logprobs) {
      ObjectNode token = content.addObject();
      putToken(token, each.tokenId(), each.chosen());
      ArrayNode likeliest = token.putArray("top_logprobs");
      each.entries()
          .forEach(
              (id, entry) -> {
                if (entry.rank() <= top) {
                  putToken(likeliest.addObject(), id, entry);
                }
              });
    }
    node.putNull("refusal");
    return node;
  }

  private void putToken(ObjectNode node, int id, Entry entry) {
    Token token = texts.of(id);
    node.put("token", token.text()).put("logprob", finite(entry.logprob()));
    node.set("bytes", token.jsonBytes());
  }

  /**
   * The form of completions: lists of tokens, logprobs, the likeliest ones and offsets.
   *
   * @param ids the tokens
   * @param logprobs one for each, null where there is none
   * @param top how many of the likeliest; the token itself is always with them
   * @param offsets where the tokens stand in the text; moves on
   * @param silentOnesShow whether the text has special tokens
   * @param node what the lists are in, or are added to
   */
  void addCompletion(
      List<Integer> ids,
      List<TokenLogprobs> logprobs,
      int top,
      TextOffsets offsets,
      boolean silentOnesShow,
      ObjectNode node) {
    ArrayNode tokens = node.withArrayProperty("tokens");
    ArrayNode chosen = node.withArrayProperty("token_logprobs");
    ArrayNode likeliest = node.withArrayProperty("top_logprobs");
    ArrayNode places = node.withArrayProperty("text_offset");
    for (int i = 0; i < ids.size(); i++) {
      Token token = texts.of(ids.get(i));
      tokens.add(token.escaped());
      places.add(offsets.next(token, silentOnesShow));
      TokenLogprobs entry = logprobs.get(i);
      if (entry == null) {
        chosen.addNull();
        likeliest.addNull();
      } else {
        chosen.add(finite(entry.chosen().logprob()));
        putTop(likeliest.addObject(), entry, top);
      }
    }
  }

  private void putTop(ObjectNode node, TokenLogprobs logprobs, int top) {
    logprobs
        .entries()
        .forEach(
            (id, entry) -> {
              if (entry.rank() <= top || id == logprobs.tokenId()) {
                node.put(texts.of(id).escaped(), finite(entry.logprob()));
              }
            });
  }

  /**
   * The prompt's, by token id: for each position, null where there is none.
   *
   * @param top how many of the likeliest; the token itself is always with them
   */
  ArrayNode prompt(List<TokenLogprobs> logprobs, int top) {
    ArrayNode array = Json.array();
    for (TokenLogprobs each : logprobs) {
      if (each == null) {
        array.addNull();
        continue;
      }
      ObjectNode node = array.addObject();
      for (Map.Entry<Integer, Entry> entry : each.entries().entrySet()) {
        int id = entry.getKey();
        if (entry.getValue().rank() <= top || id == each.tokenId()) {
          node.putObject(Integer.toString(id))
              .put("logprob", finite(entry.getValue().logprob()))
              .put("rank", entry.getValue().rank())
              .put("decoded_token", texts.of(id).text());
        }
      }
    }
    return array;
  }

  private static float finite(float logprob) {
    return Math.max(logprob, LEAST);
  }
}
