package dev.halcyon.engine.disagg.codec;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.TokenLogprobs;
import dev.halcyon.engine.TokenLogprobs.Entry;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Logprobs as JSON: {@code {"token_id": 5, "entries": [[id, logprob, rank], ...]}}, the entries in
 * their order. A logprob is the shortest decimal that gives the float back; one that is not finite
 * is "-Infinity", "Infinity" or "NaN".
 */
final class LogprobsCodec {

  private static final Set<String> KEYS = Set.of("token_id", "entries");

  private final int vocabSize;

  /**
   * @param vocabSize what ids must be below, or {@link LogitsCodec#ANY_VOCABULARY}
   */
  LogprobsCodec(int vocabSize) {
    this.vocabSize = vocabSize;
  }

  void write(List<TokenLogprobs> list, ArrayNode to) {
    for (TokenLogprobs logprobs : list) {
      ObjectNode object = to.addObject();
      object.put("token_id", logprobs.tokenId());
      ArrayNode entries = object.putArray("entries");
      logprobs
          .entries()
          .forEach(
              (id, entry) -> {
                ArrayNode triple = entries.addArray().add(id);
                if (Float.isFinite(entry.logprob())) {
                  triple.add(entry.logprob());
                } else {
                  triple.add(Float.toString(entry.logprob()));
                }
                triple.add(entry.rank());
              });
    }
  }

  List<TokenLogprobs> read(JsonNode node, String field) {
    if (!(node instanceof ArrayNode array)) {
      throw new WireFormatException(field, "must be an array, is " + WireJson.kind(node));
    }
    List<TokenLogprobs> list = new ArrayList<>(array.size());
    for (int i = 0; i < array.size(); i++) {
      list.add(entry(array.get(i), field + "[" + i + "]"));
    }
    return list;
  }

  private TokenLogprobs entry(JsonNode node, String field) {
    ObjectNode object = WireJson.requireObject(node, field, KEYS);
    int tokenId = WireJson.tokenId(object.get("token_id"), field + ".token_id", vocabSize);
    if (!(object.get("entries") instanceof ArrayNode triples)) {
      throw new WireFormatException(field + ".entries", "must be an array");
    }
    Map<Integer, Entry> entries = new LinkedHashMap<>();
    for (int i = 0; i < triples.size(); i++) {
      String where = field + ".entries[" + i + "]";
      if (!(triples.get(i) instanceof ArrayNode triple) || triple.size() != 3) {
        throw new WireFormatException(where, "must be [id, logprob, rank]");
      }
      int id = WireJson.tokenId(triple.get(0), where, vocabSize);
      int rank = WireJson.integer(triple.get(2), where, 0, Integer.MAX_VALUE);
      if (entries.put(id, new Entry(logprob(triple.get(1), where), rank)) != null) {
        throw new WireFormatException(where, "scores token " + id + " again");
      }
    }
    if (!entries.containsKey(tokenId)) {
      throw new WireFormatException(
          field + ".entries", "must have token " + tokenId + ", which token_id names");
    }
    return new TokenLogprobs(tokenId, entries);
  }

  private static float logprob(JsonNode node, String field) {
    if (node.isNumber() && Float.isFinite(node.floatValue())) {
      return node.floatValue();
    }
    if (node.isTextual()) {
      switch (node.textValue()) {
        case "-Infinity":
          return Float.NEGATIVE_INFINITY;
        case "Infinity":
          return Float.POSITIVE_INFINITY;
        case "NaN":
          return Float.NaN;
        default:
      }
    }
    throw new WireFormatException(
        field, "must have a float32, \"-Infinity\", \"Infinity\" or \"NaN\" as its logprob");
  }
}
