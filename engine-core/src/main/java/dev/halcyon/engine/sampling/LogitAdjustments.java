package dev.halcyon.engine.sampling;

import dev.halcyon.engine.LogitsProcessor;
import dev.halcyon.engine.LogitsProcessorException;
import java.util.AbstractList;
import java.util.Objects;
import java.util.RandomAccess;

/**
 * What changes logits before a token is chosen, in this order: the caller's processor, logit bias,
 * the ban of end ids until minTokens, the repetition penalty, the frequency and presence penalties.
 */
public final class LogitAdjustments {

  private LogitAdjustments() {}

  /** Whether {@link #apply} would leave the logits of this row as they are. */
  public static boolean none(SamplingRow row) {
    SamplingSettings settings = row.settings();
    return settings.processor() == null
        && settings.logitBias().isEmpty()
        && !bansEndIds(row)
        && !penalises(settings);
  }

  /**
   * Changes the logits in place.
   *
   * @throws LogitsProcessorException if the caller's processor fails
   */
  static void apply(float[] logits, SamplingRow row) {
    SamplingSettings settings = row.settings();
    if (settings.processor() != null) {
      process(settings.processor(), logits, row.history());
    }
    settings.logitBias().forEach((id, bias) -> logits[id] += bias);
    if (bansEndIds(row)) {
      for (int id : settings.endIds()) {
        // A checkpoint may name an end id that its vocabulary lacks; that one is never drawn
        // anyway.
        if (id >= 0 && id < logits.length) {
          logits[id] = Float.NEGATIVE_INFINITY;
        }
      }
    }
    if (penalises(settings)) {
      penalise(logits, settings, row.history());
    }
  }

  /** Whether end ids are ruled out for this token. */
  public static boolean bansEndIds(SamplingRow row) {
    return row.position() < row.settings().minTokens() && !row.settings().endIds().isEmpty();
  }

  /** Whether there is any penalty. */
  public static boolean penalises(SamplingSettings settings) {
    return settings.repetitionPenalty() != 1
        || settings.presencePenalty() != 0
        || settings.frequencyPenalty() != 0;
  }

  /**
   * The repetition penalty divides positive and multiplies negative logits of tokens in prompt or
   * output (Keskar et al. 2019, "CTRL", as the transformers library applies it); the others are
   * subtracted for tokens of the output.
   */
  private static void penalise(float[] logits, SamplingSettings settings, TokenHistory history) {
    float repetition = settings.repetitionPenalty();
    TokenCounts.of(history, repetition != 1)
        .forEach(
            (id, generated) -> {
              float logit = logits[id];
              logit = logit > 0 ? logit / repetition : logit * repetition;
              if (generated > 0) {
                logit -= generated * settings.frequencyPenalty() + settings.presencePenalty();
              }
              logits[id] = logit;
            });
  }

  private static void process(LogitsProcessor processor, float[] logits, TokenHistory history) {
    int prompt = history.promptLength();
    float[] processed;
    try {
      // A copy each way: the processor may keep hold of either array.
      processed =
          processor.process(
              new Tokens(history, 0, prompt),
              new Tokens(history, prompt, history.size() - prompt),
              logits.clone());
    } catch (Throwable e) { // Even an error in a caller's code is that request's alone.
      throw new LogitsProcessorException("The request's logits processor threw " + e, e);
    }
    if (processed == null || processed.length != logits.length) {
      throw new LogitsProcessorException(
          "The request's logits processor returned "
              + (processed == null ? "null" : "an array of " + processed.length)
              + ", expected one of vocabSize = "
              + logits.length,
          null);
    }
    System.arraycopy(processed, 0, logits, 0, logits.length);
    for (int id = 0; id < logits.length; id++) {
      if (!(logits[id] < Float.POSITIVE_INFINITY)) {
        throw new LogitsProcessorException(
            "The request's logits processor gave "
                + logits[id]
                + " for token "
                + id
                + ", expected a finite number, or negative infinity to rule the token out",
            null);
      }
    }
  }

  /** A read-only view of a part of the history, as long as it was when the view was made. */
  private static final class Tokens extends AbstractList<Integer> implements RandomAccess {

    private final TokenHistory history;
    private final int offset;
    private final int size;

    Tokens(TokenHistory history, int offset, int size) {
      this.history = history;
      this.offset = offset;
      this.size = size;
    }

    @Override
    public Integer get(int index) {
      Objects.checkIndex(index, size);
      return history.token(offset + index);
    }

    @Override
    public int size() {
      return size;
    }
  }
}
