package dev.halcyon.engine.executor;

import dev.halcyon.engine.TokenLogprobs;
import dev.halcyon.engine.TokenLogprobs.Entry;
import dev.halcyon.engine.logits.PromptLogprobs;
import java.util.AbstractList;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.RandomAccess;

/**
 * Compact prompt logprobs as a list: an entry's map is made when a caller reads it, on the caller's
 * thread.
 */
final class PromptLogprobsList extends AbstractList<TokenLogprobs> implements RandomAccess {

  private final PromptLogprobs logprobs;

  /**
   * @param logprobs with every entry set
   */
  PromptLogprobsList(PromptLogprobs logprobs) {
    this.logprobs = logprobs;
  }

  @Override
  public TokenLogprobs get(int index) {
    Objects.checkIndex(index, size());
    Map<Integer, Entry> entries = new LinkedHashMap<>();
    for (int i = 0; i < logprobs.topK(); i++) {
      entries.put(logprobs.topId(index, i), new Entry(logprobs.topLogprob(index, i), i + 1));
    }
    int target = logprobs.target(index);
    entries.putIfAbsent(target, new Entry(logprobs.logprob(index), logprobs.rank(index)));
    return new TokenLogprobs(target, entries);
  }

  @Override
  public int size() {
    return logprobs.entries();
  }
}
