package dev.halcyon.engine.executor;

import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.DisaggRequestType;
import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.TokenLogprobs;
import dev.halcyon.engine.Usage;
import dev.halcyon.engine.sampling.SampledToken;
import java.util.ArrayList;
import java.util.List;

/**
 * The part of a split request that this engine does, with what another engine did of it.
 *
 * @param type which part
 * @param requestId the caller's name of the request on both sides
 * @param firstTokens of a generation-only request, one for each sample, with the logprobs and
 *     logits that are wanted; empty otherwise, and as long as they are not known
 * @param contextLogits or null
 * @param promptLogprobs or null
 * @param kvDescriptor of a generation-only request
 * @param usage what the prefill engine used, or null
 * @param style which engine heard of it first
 */
record SplitPart(
    DisaggRequestType type,
    String requestId,
    List<SampledToken> firstTokens,
    LogitsView contextLogits,
    List<TokenLogprobs> promptLogprobs,
    KvDescriptor kvDescriptor,
    Usage usage,
    ScheduleStyle style) {

  /** A request that is not split. */
  static final SplitPart WHOLE =
      new SplitPart(
          DisaggRequestType.CONTEXT_AND_GENERATION,
          "",
          List.of(),
          null,
          null,
          null,
          null,
          ScheduleStyle.CONTEXT_FIRST);

  /**
   * The part that parameters say, which were checked before. Rows of logits are copied.
   *
   * @param params what of it is wanted
   */
  static SplitPart of(DisaggParams disagg, SamplingParams params) {
    if (disagg == null) {
      return WHOLE;
    }
    List<SampledToken> tokens = new ArrayList<>();
    for (int i = 0; i < disagg.firstGenTokens().size(); i++) {
      float[] logits = null;
      if (params.returnGenerationLogits()) {
        LogitsView view = disagg.firstGenLogits().get(i);
        logits = new float[view.vocabSize()];
        view.copyRow(0, logits);
      }
      tokens.add(
          new SampledToken(
              disagg.firstGenTokens().get(i),
              params.logprobs() == null ? null : disagg.firstGenLogprobs().get(i),
              logits,
              null));
    }
    return new SplitPart(
        disagg.requestType(),
        disagg.requestId(),
        tokens,
        params.returnContextLogits() ? disagg.contextLogits() : null,
        params.promptLogprobs() != null ? disagg.promptLogprobs() : null,
        disagg.kvDescriptor(),
        disagg.usage(),
        disagg.scheduleStyle());
  }

  boolean contextOnly() {
    return type == DisaggRequestType.CONTEXT_ONLY;
  }

  /** Whether the prompt is offered before it is computed, or may have been. */
  boolean mayBeComputing() {
    return style == ScheduleStyle.GENERATION_FIRST;
  }

  /** Whether its prompt is to be offered before it is computed. */
  boolean offersEarly() {
    return contextOnly() && mayBeComputing();
  }

  boolean generationOnly() {
    return type == DisaggRequestType.GENERATION_ONLY;
  }
}
