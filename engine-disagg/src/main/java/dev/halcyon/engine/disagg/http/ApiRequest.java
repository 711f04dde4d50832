package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.SamplingParams;
import java.util.List;

/**
 * What a client asks for, checked.
 *
 * @param prompts what to continue
 * @param params how, the same for all prompts
 * @param cacheSalt see GenerationRequest
 * @param priority see GenerationRequest
 * @param stream whether the answer comes as events
 * @param streamUsage whether the events end with the usage
 * @param echo whether a choice's text begins with its prompt
 * @param promptOnly whether nothing is to be generated: the one token that the engine generates is
 *     left out
 * @param topLogprobs how many of the likeliest tokens at each generated one (and with echo, at each
 *     of the prompt) are reported; null for no logprobs
 * @param promptLogprobs the same for the prompt, in a list of its own; null for none
 * @param tokenIds whether choices have their ids
 */
record ApiRequest(
    List<Prompt> prompts,
    SamplingParams params,
    String cacheSalt,
    int priority,
    boolean stream,
    boolean streamUsage,
    boolean echo,
    boolean promptOnly,
    Integer topLogprobs,
    Integer promptLogprobs,
    boolean tokenIds) {

  /**
   * @param ids as they are computed, after truncation
   * @param text what an echo of it is; null if it is not echoed
   */
  record Prompt(int[] ids, String text) {}

  ApiRequest {
    prompts = List.copyOf(prompts);
  }

  /** How many choices the answer has. */
  int choices() {
    return prompts.size() * params.n();
  }
}
