package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.disagg.codec.WireType;
import java.time.Duration;
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
 * @param logitsType the type of the logits that the params ask for
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
    boolean tokenIds,
    WireType logitsType) {

  /**
   * @param ids as they are computed, after truncation
   * @param text what an echo of it is; null if it is not echoed
   * @param handover what another engine did of it, or null
   */
  record Prompt(int[] ids, String text, Handover handover) {

    Prompt(int[] ids, String text) {
      this(ids, text, null);
    }
  }

  ApiRequest {
    prompts = List.copyOf(prompts);
  }

  /** What the engine is to do for one of the prompts. */
  GenerationRequest.Builder engineRequest(Prompt prompt, Duration timeout) {
    return GenerationRequest.builder(prompt.ids())
        .params(params)
        .cacheSalt(cacheSalt)
        .priority(priority)
        .timeout(timeout);
  }

  /** The same with other prompts. */
  ApiRequest withPrompts(List<Prompt> others) {
    return new ApiRequest(
        others,
        params,
        cacheSalt,
        priority,
        stream,
        streamUsage,
        echo,
        promptOnly,
        topLogprobs,
        promptLogprobs,
        tokenIds,
        logitsType);
  }
}
