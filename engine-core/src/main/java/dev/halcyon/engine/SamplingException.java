package dev.halcyon.engine;

/**
 * No token can be drawn: the logits hold NaN or positive infinity, or every token was ruled out by
 * the request's own bias, processor and minTokens together. Fails its own request alone.
 */
public final class SamplingException extends EngineException {

  public SamplingException(String message) {
    super(message);
  }
}
