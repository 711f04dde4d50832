package dev.halcyon.engine.executor;

import dev.halcyon.engine.RequestOutOfMemoryException;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.logits.ContextLogitsPlan;
import dev.halcyon.engine.logits.OutOfHostMemoryException;
import dev.halcyon.engine.logits.PromptLogprobs;
import java.lang.ref.Cleaner;

/** Prepares what requests get of their prompts, before any of it is computed. */
final class ContextOutputs {

  private final ContextLogitsPlan plan;

  /** Frees results that callers dropped without closing. Made with the first one. */
  private Cleaner cleaner;

  ContextOutputs(ContextLogitsPlan plan) {
    this.plan = plan;
  }

  /** Whether a request wants rows of its prompt at all. */
  static boolean wanted(SamplingParams params) {
    return params.returnContextLogits() || params.promptLogprobs() != null;
  }

  /**
   * Prepares a request's storage.
   *
   * @throws RequestOutOfMemoryException if there is no room for it; nothing is held then
   */
  ContextOutput open(ActiveRequest request) {
    SamplingParams params = request.params();
    int[] prompt = request.prompt();
    try {
      PromptLogprobs logprobs =
          params.promptLogprobs() == null
              ? null
              : new PromptLogprobs(prompt, params.promptLogprobs(), !params.simpleLogprobs());
      if (params.returnContextLogits() && cleaner == null) {
        cleaner = Cleaner.create();
      }
      return new ContextOutput(
          plan.open(
              "request " + request.id(), prompt.length, params.returnContextLogits(), logprobs),
          cleaner);
    } catch (OutOfHostMemoryException e) {
      throw new RequestOutOfMemoryException(
          "No memory for the request's context logits: " + e.getMessage(), e);
    } catch (OutOfMemoryError e) {
      throw new RequestOutOfMemoryException(
          "No Java heap for the request's context logits or prompt logprobs", e);
    }
  }
}
