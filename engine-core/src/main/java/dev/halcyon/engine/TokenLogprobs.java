package dev.halcyon.engine;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/**
 * The log-probabilities at one position: of the token that stands there, and of the most likely
 * ones. They are the log-softmax of the model's logits as they are, before penalties, bias and
 * temperature.
 *
 * @param tokenId the token that stands at the position
 * @param entries by token id, in order of rank; always has {@code tokenId}
 */
public record TokenLogprobs(int tokenId, Map<Integer, Entry> entries) {

  /**
   * @param logprob natural logarithm of the probability
   * @param rank 1 for the most likely token; ties share no rank, the lower id comes first. 0 in the
   *     simple format, which has no ranks
   */
  public record Entry(float logprob, int rank) {}

  public TokenLogprobs {
    entries = Collections.unmodifiableMap(new LinkedHashMap<>(entries));
    Objects.requireNonNull(entries.get(tokenId), "the token's own entry");
  }

  /** The entry of the token that stands at the position. */
  public Entry chosen() {
    return entries.get(tokenId);
  }
}
