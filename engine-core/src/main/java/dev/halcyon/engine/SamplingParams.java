package dev.halcyon.engine;

import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * How to generate: when to stop, how to choose tokens, what to return. Immutable; made by a {@link
 * Builder}, which checks each value and throws {@link IllegalArgumentException} naming the
 * parameter, what it was and what is allowed. What depends on the model is checked by {@link
 * #requireFits}.
 *
 * <p>Temperature, topK, topP, minP and the penalties are null where they are not set. If none of
 * the first four is set, a request samples as the checkpoint's generation config says where that
 * has do_sample, and is greedy otherwise. If any is set, it samples, and what is left open comes
 * from a generation config that has do_sample, or else has no effect (temperature 1). Temperature 0
 * and topK 1 are always greedy. A repetition penalty that is not set comes from the generation
 * config.
 */
public final class SamplingParams {

  /** The most samples that one request may ask for. */
  public static final int MAX_N = 1024;

  private final int maxTokens;
  private final int minTokens;
  private final Float temperature;
  private final Integer topK;
  private final Float topP;
  private final Float minP;
  private final Float repetitionPenalty;
  private final Float presencePenalty;
  private final Float frequencyPenalty;
  private final Long seed;
  private final int n;
  private final List<String> stop;
  private final List<Integer> stopTokenIds;
  private final boolean includeStopInOutput;
  private final boolean ignoreEos;
  private final Map<Integer, Float> logitBias;
  private final LogitsProcessor logitsProcessor;
  private final Integer logprobs;
  private final Integer promptLogprobs;
  private final boolean simpleLogprobs;
  private final boolean returnContextLogits;
  private final boolean returnGenerationLogits;
  private final Integer truncatePromptTokens;
  private final boolean detokenize;
  private final boolean skipSpecialTokens;

  private SamplingParams(Builder from) {
    maxTokens = from.maxTokens;
    minTokens = from.minTokens;
    temperature = from.temperature;
    topK = from.topK;
    topP = from.topP;
    minP = from.minP;
    repetitionPenalty = from.repetitionPenalty;
    presencePenalty = from.presencePenalty;
    frequencyPenalty = from.frequencyPenalty;
    seed = from.seed;
    n = from.n;
    stop = from.stop;
    stopTokenIds = from.stopTokenIds;
    includeStopInOutput = from.includeStopInOutput;
    ignoreEos = from.ignoreEos;
    logitBias = from.logitBias;
    logitsProcessor = from.logitsProcessor;
    logprobs = from.logprobs;
    promptLogprobs = from.promptLogprobs;
    simpleLogprobs = from.simpleLogprobs;
    returnContextLogits = from.returnContextLogits;
    returnGenerationLogits = from.returnGenerationLogits;
    truncatePromptTokens = from.truncatePromptTokens;
    detokenize = from.detokenize;
    skipSpecialTokens = from.skipSpecialTokens;
  }

  /** A builder with every default. */
  public static Builder builder() {
    return new Builder();
  }

  /** A builder with the values of this one. */
  public Builder toBuilder() {
    return new Builder(this);
  }

  /** The most tokens to generate for each sample; at least 1, 32 by default. */
  public int maxTokens() {
    return maxTokens;
  }

  /**
   * End and stop ids are ruled out until this many tokens were generated; 0 to maxTokens, 0 by
   * default.
   */
  public int minTokens() {
    return minTokens;
  }

  /** What logits are divided by; finite and at least 0. 0 is greedy; null is not set. */
  public Float temperature() {
    return temperature;
  }

  /** Keep the k most likely tokens; 1 is greedy, 0 keeps all, null is not set. */
  public Integer topK() {
    return topK;
  }

  /**
   * Keep the fewest most likely tokens whose probabilities reach this; in (0, 1]. 1 keeps all, null
   * is not set.
   */
  public Float topP() {
    return topP;
  }

  /**
   * Keep tokens at least this likely relative to the most likely one; in [0, 1]. 0 keeps all, null
   * is not set.
   */
  public Float minP() {
    return minP;
  }

  /**
   * Divides positive and multiplies negative logits of tokens in the prompt or the output; finite
   * and above 0. 1 changes nothing, null is not set.
   */
  public Float repetitionPenalty() {
    return repetitionPenalty;
  }

  /**
   * Subtracted from the logits of tokens in the output; any finite number, negative ones encourage.
   * Null is not set, which is 0.
   */
  public Float presencePenalty() {
    return presencePenalty;
  }

  /**
   * Subtracted from a token's logit for each time it stands in the output; any finite number,
   * negative ones encourage. Null is not set, which is 0.
   */
  public Float frequencyPenalty() {
    return frequencyPenalty;
  }

  /**
   * The same request with the same seed gives the same tokens, whatever else is in the batch. With
   * null, the default, each request gets its own.
   */
  public Long seed() {
    return seed;
  }

  /** How many samples to generate from the prompt; 1 to {@value #MAX_N}, 1 by default. */
  public int n() {
    return n;
  }

  /**
   * Texts that end the output where they first appear, across token borders; none is empty. None by
   * default.
   */
  public List<String> stop() {
    return stop;
  }

  /** Token ids that end the output, beside those of the checkpoint. None by default. */
  public List<Integer> stopTokenIds() {
    return stopTokenIds;
  }

  /** Whether the stop text or id that matched stays in the output. False by default. */
  public boolean includeStopInOutput() {
    return includeStopInOutput;
  }

  /** Whether to go on past the checkpoint's end ids; stopTokenIds still count. False by default. */
  public boolean ignoreEos() {
    return ignoreEos;
  }

  /**
   * Added to logits, by token id: finite, or negative infinity to rule a token out. None by
   * default.
   */
  public Map<Integer, Float> logitBias() {
    return logitBias;
  }

  /** The caller's own change to the logits, before all others; null, the default, for none. */
  public LogitsProcessor logitsProcessor() {
    return logitsProcessor;
  }

  /**
   * How many of the most likely tokens to report logprobs of at each generated token, beside the
   * chosen one. 0 gives the chosen one alone; null, the default, gives none.
   */
  public Integer logprobs() {
    return logprobs;
  }

  /**
   * As {@link #logprobs}, for the prompt: each of its positions scores the token after it, the last
   * one the first generated token.
   */
  public Integer promptLogprobs() {
    return promptLogprobs;
  }

  /**
   * Whether logprobs and promptLogprobs come in the simple format: the scored token alone, without
   * its rank. Where they are asked for, they must be 0 then. False by default.
   */
  public boolean simpleLogprobs() {
    return simpleLogprobs;
  }

  /** Whether the result has the logits of the prompt's rows. False by default. */
  public boolean returnContextLogits() {
    return returnContextLogits;
  }

  /** Whether the result has the logits that each token was chosen from. False by default. */
  public boolean returnGenerationLogits() {
    return returnGenerationLogits;
  }

  /**
   * Keep only the last this many tokens of the prompt; at least 1. Null, the default, keeps all.
   */
  public Integer truncatePromptTokens() {
    return truncatePromptTokens;
  }

  /** Whether the result has text; stop texts need it. True by default. */
  public boolean detokenize() {
    return detokenize;
  }

  /** Whether special tokens are left out of the text. True by default. */
  public boolean skipSpecialTokens() {
    return skipSpecialTokens;
  }

  /**
   * Checks what depends on the model.
   *
   * @param vocabSize the model's number of tokens
   * @throws IllegalArgumentException if topK, logprobs or promptLogprobs is above it, or a token id
   *     of logitBias or stopTokenIds is not below it
   */
  public void requireFits(int vocabSize) {
    SamplingChecks.atMostVocab("topK", topK, vocabSize);
    SamplingChecks.atMostVocab("logprobs", logprobs, vocabSize);
    SamplingChecks.atMostVocab("promptLogprobs", promptLogprobs, vocabSize);
    SamplingChecks.knownIds("logitBias", logitBias.keySet(), vocabSize);
    SamplingChecks.knownIds("stopTokenIds", stopTokenIds, vocabSize);
  }

  /** Processors are equal if they are the same object, unless they say otherwise. */
  @Override
  public boolean equals(Object other) {
    return other instanceof SamplingParams that && values().equals(that.values());
  }

  @Override
  public int hashCode() {
    return values().hashCode();
  }

  /** Lists what differs from the defaults. */
  @Override
  public String toString() {
    Map<String, Object> shown = values();
    shown.entrySet().removeAll(builder().build().values().entrySet());
    return "SamplingParams" + shown;
  }

  private Map<String, Object> values() {
    Map<String, Object> values = new LinkedHashMap<>();
    values.put("maxTokens", maxTokens);
    values.put("minTokens", minTokens);
    values.put("temperature", temperature);
    values.put("topK", topK);
    values.put("topP", topP);
    values.put("minP", minP);
    values.put("repetitionPenalty", repetitionPenalty);
    values.put("presencePenalty", presencePenalty);
    values.put("frequencyPenalty", frequencyPenalty);
    values.put("seed", seed);
    values.put("n", n);
    values.put("stop", stop);
    values.put("stopTokenIds", stopTokenIds);
    values.put("includeStopInOutput", includeStopInOutput);
    values.put("ignoreEos", ignoreEos);
    values.put("logitBias", logitBias);
    values.put("logitsProcessor", logitsProcessor);
    values.put("logprobs", logprobs);
    values.put("promptLogprobs", promptLogprobs);
    values.put("simpleLogprobs", simpleLogprobs);
    values.put("returnContextLogits", returnContextLogits);
    values.put("returnGenerationLogits", returnGenerationLogits);
    values.put("truncatePromptTokens", truncatePromptTokens);
    values.put("detokenize", detokenize);
    values.put("skipSpecialTokens", skipSpecialTokens);
    return values;
  }

  /**
   * Collects values; checked when built. Each setter's meaning is that of the accessor it is named
   * for.
   */
  public static final class Builder {

    private int maxTokens = 32;
    private int minTokens;
    private Float temperature;
    private Integer topK;
    private Float topP;
    private Float minP;
    private Float repetitionPenalty;
    private Float presencePenalty;
    private Float frequencyPenalty;
    private Long seed;
    private int n = 1;
    private List<String> stop = List.of();
    private List<Integer> stopTokenIds = List.of();
    private boolean includeStopInOutput;
    private boolean ignoreEos;
    private Map<Integer, Float> logitBias = Map.of();
    private LogitsProcessor logitsProcessor;
    private Integer logprobs;
    private Integer promptLogprobs;
    private boolean simpleLogprobs;
    private boolean returnContextLogits;
    private boolean returnGenerationLogits;
    private Integer truncatePromptTokens;
    private boolean detokenize = true;
    private boolean skipSpecialTokens = true;

    private Builder() {}

    private Builder(SamplingParams from) {
      maxTokens = from.maxTokens;
      minTokens = from.minTokens;
      temperature = from.temperature;
      topK = from.topK;
      topP = from.topP;
      minP = from.minP;
      repetitionPenalty = from.repetitionPenalty;
      presencePenalty = from.presencePenalty;
      frequencyPenalty = from.frequencyPenalty;
      seed = from.seed;
      n = from.n;
      stop = from.stop;
      stopTokenIds = from.stopTokenIds;
      includeStopInOutput = from.includeStopInOutput;
      ignoreEos = from.ignoreEos;
      logitBias = from.logitBias;
      logitsProcessor = from.logitsProcessor;
      logprobs = from.logprobs;
      promptLogprobs = from.promptLogprobs;
      simpleLogprobs = from.simpleLogprobs;
      returnContextLogits = from.returnContextLogits;
      returnGenerationLogits = from.returnGenerationLogits;
      truncatePromptTokens = from.truncatePromptTokens;
      detokenize = from.detokenize;
      skipSpecialTokens = from.skipSpecialTokens;
    }

    public Builder maxTokens(int value) {
      maxTokens = value;
      return this;
    }

    public Builder minTokens(int value) {
      minTokens = value;
      return this;
    }

    public Builder temperature(double value) {
      return temperature((Float) SamplingChecks.toFloat(value));
    }

    /** Null for not set. */
    public Builder temperature(Float value) {
      temperature = value;
      return this;
    }

    public Builder topK(Integer value) {
      topK = value;
      return this;
    }

    public Builder topP(double value) {
      return topP((Float) SamplingChecks.toFloat(value));
    }

    /** Null for not set. */
    public Builder topP(Float value) {
      topP = value;
      return this;
    }

    public Builder minP(double value) {
      return minP((Float) SamplingChecks.toFloat(value));
    }

    /** Null for not set. */
    public Builder minP(Float value) {
      minP = value;
      return this;
    }

    public Builder repetitionPenalty(double value) {
      return repetitionPenalty((Float) SamplingChecks.toFloat(value));
    }

    /** Null for not set. */
    public Builder repetitionPenalty(Float value) {
      repetitionPenalty = value;
      return this;
    }

    public Builder presencePenalty(double value) {
      return presencePenalty((Float) SamplingChecks.toFloat(value));
    }

    /** Null for not set. */
    public Builder presencePenalty(Float value) {
      presencePenalty = value;
      return this;
    }

    public Builder frequencyPenalty(double value) {
      return frequencyPenalty((Float) SamplingChecks.toFloat(value));
    }

    /** Null for not set. */
    public Builder frequencyPenalty(Float value) {
      frequencyPenalty = value;
      return this;
    }

    public Builder seed(Long value) {
      seed = value;
      return this;
    }

    public Builder n(int value) {
      n = value;
      return this;
    }

    public Builder stop(Collection<String> value) {
      stop = SamplingChecks.copyOfTexts("stop", value);
      return this;
    }

    public Builder stop(String... values) {
      return stop(SamplingChecks.listOf("stop", values));
    }

    public Builder stopTokenIds(Collection<Integer> value) {
      stopTokenIds = SamplingChecks.copyOfIds("stopTokenIds", value);
      return this;
    }

    public Builder includeStopInOutput(boolean value) {
      includeStopInOutput = value;
      return this;
    }

    public Builder ignoreEos(boolean value) {
      ignoreEos = value;
      return this;
    }

    public Builder logitBias(Map<Integer, Float> value) {
      logitBias = SamplingChecks.copyOfBias("logitBias", value);
      return this;
    }

    public Builder logitsProcessor(LogitsProcessor value) {
      logitsProcessor = value;
      return this;
    }

    public Builder logprobs(Integer value) {
      logprobs = value;
      return this;
    }

    public Builder promptLogprobs(Integer value) {
      promptLogprobs = value;
      return this;
    }

    public Builder simpleLogprobs(boolean value) {
      simpleLogprobs = value;
      return this;
    }

    public Builder returnContextLogits(boolean value) {
      returnContextLogits = value;
      return this;
    }

    public Builder returnGenerationLogits(boolean value) {
      returnGenerationLogits = value;
      return this;
    }

    public Builder truncatePromptTokens(Integer value) {
      truncatePromptTokens = value;
      return this;
    }

    public Builder detokenize(boolean value) {
      detokenize = value;
      return this;
    }

    public Builder skipSpecialTokens(boolean value) {
      skipSpecialTokens = value;
      return this;
    }

    /**
     * @throws IllegalArgumentException if a value is outside what its accessor allows
     */
    public SamplingParams build() {
      SamplingChecks.inRange("maxTokens", maxTokens, 1, Integer.MAX_VALUE);
      SamplingChecks.minTokens(minTokens, maxTokens);
      SamplingChecks.inRange("n", n, 1, MAX_N);
      SamplingChecks.inRange("topK", topK, 0, Integer.MAX_VALUE);
      SamplingChecks.inRange("logprobs", logprobs, 0, Integer.MAX_VALUE);
      SamplingChecks.inRange("promptLogprobs", promptLogprobs, 0, Integer.MAX_VALUE);
      if (simpleLogprobs) {
        SamplingChecks.inRange("logprobs, with simpleLogprobs,", logprobs, 0, 0);
        SamplingChecks.inRange("promptLogprobs, with simpleLogprobs,", promptLogprobs, 0, 0);
      }
      SamplingChecks.inRange("truncatePromptTokens", truncatePromptTokens, 1, Integer.MAX_VALUE);
      SamplingChecks.that(
          "temperature",
          temperature,
          t -> t >= 0 && Float.isFinite(t),
          "a finite number of at least 0");
      SamplingChecks.that("topP", topP, p -> p > 0 && p <= 1, "a number above 0 and at most 1");
      SamplingChecks.that("minP", minP, p -> p >= 0 && p <= 1, "a number from 0 to 1");
      SamplingChecks.that(
          "repetitionPenalty",
          repetitionPenalty,
          p -> p > 0 && Float.isFinite(p),
          "a finite number above 0");
      SamplingChecks.that("presencePenalty", presencePenalty, Float::isFinite, "a finite number");
      SamplingChecks.that("frequencyPenalty", frequencyPenalty, Float::isFinite, "a finite number");
      return new SamplingParams(this);
    }
  }
}
