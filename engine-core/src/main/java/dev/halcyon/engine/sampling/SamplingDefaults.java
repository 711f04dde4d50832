package dev.halcyon.engine.sampling;

/**
 * What a checkpoint's generation config says of sampling; null for what it leaves out.
 *
 * <p>Values out of range are refused with {@link IllegalArgumentException} that names them.
 *
 * @param doSample whether the checkpoint wants sampling where a request sets nothing
 * @param temperature at least 0
 * @param topK 0 for off
 * @param topP in (0, 1]
 * @param minP in [0, 1]
 * @param repetitionPenalty above 0; holds for greedy requests too
 */
public record SamplingDefaults(
    boolean doSample,
    Float temperature,
    Integer topK,
    Float topP,
    Float minP,
    Float repetitionPenalty) {

  public SamplingDefaults {
    require("temperature", temperature, temperature == null || temperature >= 0);
    require("topK", topK, topK == null || topK >= 0);
    require("topP", topP, topP == null || (topP > 0 && topP <= 1));
    require("minP", minP, minP == null || (minP >= 0 && minP <= 1));
    require(
        "repetitionPenalty", repetitionPenalty, repetitionPenalty == null || repetitionPenalty > 0);
  }

  /** Of a checkpoint that says nothing: greedy. */
  public static final SamplingDefaults NONE =
      new SamplingDefaults(false, null, null, null, null, null);

  private static void require(String name, Number value, boolean allowed) {
    if (!allowed || (value != null && !Float.isFinite(value.floatValue()))) {
      throw new IllegalArgumentException(
          "The generation config's "
              + name
              + " is "
              + value
              + ", outside what can be sampled with");
    }
  }
}
