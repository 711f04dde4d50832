package dev.halcyon.engine;

/** A request's own logits processor threw, or returned an array of the wrong size. */
public final class LogitsProcessorException extends EngineException {

  public LogitsProcessorException(String message, Throwable cause) {
    super(message, cause);
  }
}
