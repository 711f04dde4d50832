package dev.halcyon.engine.sampling;

import dev.halcyon.engine.SamplingParams;
import java.util.HashSet;
import java.util.Set;

/** Fills in what a request leaves open. */
public final class SamplingResolver {

  private SamplingResolver() {}

  /**
   * Settings for a request.
   *
   * <p>A request that sets none of temperature, topK, topP and minP samples as the checkpoint does
   * where that has do_sample, and is greedy otherwise. A request that sets any of them samples:
   * what it leaves open comes from a checkpoint that has do_sample, and is neutral otherwise
   * (temperature 1, no filter). Either way temperature 0 or topK 1 mean greedy. The checkpoint's
   * repetition penalty always counts where the request sets none.
   *
   * @param checkpointEndIds the tokens that end a sequence; ruled out until minTokens, as the
   *     request's stop ids are, unless it ignores them
   */
  public static SamplingSettings resolve(
      SamplingParams params, SamplingDefaults defaults, Set<Integer> checkpointEndIds) {
    boolean nothingSet =
        params.temperature() == null
            && params.topK() == null
            && params.topP() == null
            && params.minP() == null;
    SamplingDefaults open = defaults.doSample() ? defaults : SamplingDefaults.NONE;
    float temperature =
        nothingSet && !defaults.doSample()
            ? 0f
            : first(params.temperature(), open.temperature(), 1f);

    Set<Integer> endIds = new HashSet<>(params.stopTokenIds());
    if (!params.ignoreEos()) {
      endIds.addAll(checkpointEndIds);
    }
    return new SamplingSettings(
        temperature,
        first(params.topK(), open.topK(), 0),
        first(params.topP(), open.topP(), 1f),
        first(params.minP(), open.minP(), 0f),
        first(params.repetitionPenalty(), defaults.repetitionPenalty(), 1f),
        first(params.presencePenalty(), null, 0f),
        first(params.frequencyPenalty(), null, 0f),
        params.logitBias(),
        params.minTokens(),
        endIds,
        params.logitsProcessor());
  }

  private static <T> T first(T requested, T fromCheckpoint, T neutral) {
    if (requested != null) {
      return requested;
    }
    return fromCheckpoint != null ? fromCheckpoint : neutral;
  }
}
