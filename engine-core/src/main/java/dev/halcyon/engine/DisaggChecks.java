package dev.halcyon.engine;

import java.util.List;
import java.util.Objects;

/**
 * All that is refused of split requests. A refusal concerns its request alone.
 *
 * <table>
 * <caption>What is refused, and how</caption>
 * <tr><th>what</th><th>error</th></tr>
 * <tr><td>context-only or generation-only, by an engine without a {@code kvTransport}</td>
 *     <td>{@link UnsupportedRequestException}</td></tr>
 * <tr><td>context-only, or context and generation, with results of a prefill engine</td>
 *     <td>{@link IllegalArgumentException}</td></tr>
 * <tr><td>generation-only without firstGenTokens or kvDescriptor; in style GENERATION_FIRST the
 *     tokens may come later, as the request's {@code firstTokens}</td>
 *     <td>{@link IllegalArgumentException}</td></tr>
 * <tr><td>{@code firstTokens} in any other request, or ones with another requestId, seed or
 *     kvDescriptor than the offer's</td><td>{@link IllegalArgumentException}</td></tr>
 * <tr><td>a number of firstGenTokens, firstGenLogprobs or firstGenLogits other than n</td>
 *     <td>{@link IllegalArgumentException}</td></tr>
 * <tr><td>generation-only that asks for logprobs, generation logits, context logits or prompt
 *     logprobs which the parameters lack</td><td>{@link IllegalArgumentException}</td></tr>
 * <tr><td>tokens, logits or logprobs that don't fit the vocabulary or the prompt</td>
 *     <td>{@link IllegalArgumentException}</td></tr>
 * <tr><td>a seed that is not the one of the first tokens</td>
 *     <td>{@link IllegalArgumentException}</td></tr>
 * <tr><td>generation-only with a prompt, a model, an element type or a KV shape that is not the
 *     prefill engine's</td><td>{@link KvTransferException}, reason REFUSED</td></tr>
 * </table>
 *
 * <p>Everything else is supported. What can't be checked is the caller's to keep: the sampling
 * parameters of both requests are to be the same, and a logits processor has no memory of earlier
 * calls, as the decode engine's is not called for the first token.
 */
public final class DisaggChecks {

  private DisaggChecks() {}

  /** What is wrong with parameters whatever the request and the engine. */
  static void requireConsistent(DisaggParams params) {
    requireId(params.requestId());
    if (params.requestType() != DisaggRequestType.GENERATION_ONLY) {
      if (!params.firstGenTokens().isEmpty()
          || params.firstGenLogprobs() != null
          || params.firstGenLogits() != null
          || params.contextLogits() != null
          || params.promptLogprobs() != null
          || params.kvDescriptor() != null) {
        throw new IllegalArgumentException(
            "requestType "
                + params.requestType()
                + " takes no results of a prefill engine; only GENERATION_ONLY does");
      }
      return;
    }
    boolean inParts = params.scheduleStyle() == ScheduleStyle.GENERATION_FIRST;
    if (params.firstGenTokens().isEmpty() && !(inParts && params.kvDescriptor() != null)) {
      throw new IllegalArgumentException("firstGenTokens is empty; GENERATION_ONLY needs them");
    }
    if (params.kvDescriptor() == null && !inParts) {
      throw new IllegalArgumentException("kvDescriptor is missing; GENERATION_ONLY needs it");
    }
    requirePerSample("firstGenLogprobs", params.firstGenLogprobs(), params);
    requirePerSample("firstGenLogits", params.firstGenLogits(), params);
    for (int i = 0; i < params.firstGenTokens().size(); i++) {
      int token = params.firstGenTokens().get(i);
      if (params.firstGenLogprobs() != null
          && params.firstGenLogprobs().get(i).tokenId() != token) {
        throw new IllegalArgumentException(
            String.format(
                "firstGenLogprobs[%d] scores token %d, but firstGenTokens[%d] is %d",
                i, params.firstGenLogprobs().get(i).tokenId(), i, token));
      }
    }
  }

  /**
   * What is wrong with parameters for one request on one engine.
   *
   * @param prompt as it is computed, after truncation
   * @param transfers whether the engine has a transport for keys and values
   */
  public static void requireFits(
      DisaggParams disagg, SamplingParams params, int[] prompt, int vocabSize, boolean transfers) {
    if (disagg.requestType() == DisaggRequestType.CONTEXT_AND_GENERATION) {
      return;
    }
    if (!transfers) {
      throw new UnsupportedRequestException(
          disagg.requestType()
              + " needs an engine with a kvTransport, which this one was built without");
    }
    if (disagg.requestType() == DisaggRequestType.GENERATION_ONLY
        && !disagg.firstGenTokens().isEmpty()) {
      requireAsked(disagg, params);
      requireShapes(disagg, prompt.length, vocabSize);
    }
  }

  /**
   * Whether a request's first tokens come now or later, which has to be said.
   *
   * @param disagg or null
   */
  public static void requireFirstTokens(DisaggParams disagg, boolean later) {
    boolean continues = disagg != null && disagg.requestType() == DisaggRequestType.GENERATION_ONLY;
    boolean lacking = continues && disagg.firstGenTokens().isEmpty();
    if (later && !lacking) {
      throw new IllegalArgumentException(
          "firstTokens are for GENERATION_ONLY with an offer, which has no firstGenTokens");
    }
    if (lacking && !later) {
      throw new IllegalArgumentException(
          "firstTokens is missing, and disaggParams are an offer without firstGenTokens");
    }
    if (continues && disagg.kvDescriptor() == null) {
      throw new IllegalArgumentException(
          "kvDescriptor is missing: the first tokens ended every output, and nothing is left to do");
    }
  }

  /** Requires that what came later belongs to an offer. */
  public static void requireSame(DisaggParams offer, DisaggParams later) {
    requireSame("requestType", offer.requestType(), later.requestType());
    requireSame("requestId", offer.requestId(), later.requestId());
    requireSame("seed", offer.seed(), later.seed());
    if (later.kvDescriptor() != null) {
      requireSame("kvDescriptor", offer.kvDescriptor(), later.kvDescriptor());
    }
    if (later.firstGenTokens().isEmpty()) {
      throw new IllegalArgumentException("firstGenTokens is empty in what firstTokens gave");
    }
  }

  private static void requireSame(String name, Object offered, Object later) {
    if (!Objects.equals(offered, later)) {
      throw new IllegalArgumentException(
          name + " of firstTokens is not the offer's: they are another request's");
    }
  }

  private static void requireAsked(DisaggParams disagg, SamplingParams params) {
    if (disagg.firstGenTokens().size() != params.n()) {
      throw new IllegalArgumentException(
          String.format(
              "firstGenTokens has %d tokens for n = %d outputs",
              disagg.firstGenTokens().size(), params.n()));
    }
    requireGiven(
        "logprobs", params.logprobs() != null, "firstGenLogprobs", disagg.firstGenLogprobs());
    requireGiven(
        "returnGenerationLogits",
        params.returnGenerationLogits(),
        "firstGenLogits",
        disagg.firstGenLogits());
    requireGiven(
        "returnContextLogits",
        params.returnContextLogits(),
        "contextLogits",
        disagg.contextLogits());
    requireGiven(
        "promptLogprobs",
        params.promptLogprobs() != null,
        "promptLogprobs",
        disagg.promptLogprobs());
    if (params.seed() != null && disagg.seed() != null && !params.seed().equals(disagg.seed())) {
      throw new IllegalArgumentException(
          String.format(
              "seed is %d, but the first tokens were drawn with %d", params.seed(), disagg.seed()));
    }
  }

  private static void requireShapes(DisaggParams disagg, int promptLength, int vocabSize) {
    for (int token : disagg.firstGenTokens()) {
      requireToken("firstGenTokens", token, vocabSize);
    }
    if (disagg.firstGenLogprobs() != null) {
      for (TokenLogprobs entry : disagg.firstGenLogprobs()) {
        entry.entries().keySet().forEach(id -> requireToken("firstGenLogprobs", id, vocabSize));
      }
    }
    if (disagg.firstGenLogits() != null) {
      for (LogitsView view : disagg.firstGenLogits()) {
        requireView("firstGenLogits", view, 1, vocabSize);
      }
    }
    if (disagg.contextLogits() != null) {
      requireView("contextLogits", disagg.contextLogits(), promptLength, vocabSize);
    }
    if (disagg.promptLogprobs() != null && disagg.promptLogprobs().size() != promptLength) {
      throw new IllegalArgumentException(
          String.format(
              "promptLogprobs has %d entries for a prompt of %d tokens",
              disagg.promptLogprobs().size(), promptLength));
    }
  }

  private static void requireId(String id) {
    if (id.isEmpty()
        || id.length() > DisaggParams.MAX_REQUEST_ID
        || !id.chars().allMatch(c -> c > 0x20 && c < 0x7f)) {
      throw new IllegalArgumentException(
          "requestId must be 1 to "
              + DisaggParams.MAX_REQUEST_ID
              + " printable ASCII characters without spaces, has "
              + id.length()
              + " characters");
    }
  }

  private static void requirePerSample(String name, List<?> list, DisaggParams params) {
    if (list != null && list.size() != params.firstGenTokens().size()) {
      throw new IllegalArgumentException(
          String.format(
              "%s has %d entries for %d firstGenTokens",
              name, list.size(), params.firstGenTokens().size()));
    }
  }

  private static void requireGiven(String asked, boolean wanted, String name, Object value) {
    if (wanted && value == null) {
      throw new IllegalArgumentException(
          name + " is missing, and " + asked + " asks for it; ask the prefill engine too");
    }
  }

  private static void requireToken(String name, int token, int vocabSize) {
    if (token < 0 || token >= vocabSize) {
      throw new IllegalArgumentException(
          name + " has token " + token + ", outside of the vocabulary of " + vocabSize);
    }
  }

  private static void requireView(String name, LogitsView view, int rows, int vocabSize) {
    if (view.rows() != rows || view.vocabSize() != vocabSize) {
      throw new IllegalArgumentException(
          String.format(
              "%s must be [%d, %d], is [%d, %d]",
              name, rows, vocabSize, view.rows(), view.vocabSize()));
    }
  }
}
