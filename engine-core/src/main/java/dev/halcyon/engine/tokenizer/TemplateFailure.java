package dev.halcyon.engine.tokenizer;

/** A template does what it can't, while it is read or rendered. Its message says what. */
final class TemplateFailure extends RuntimeException {

  private final boolean raised;

  TemplateFailure(String message) {
    this(message, false);
  }

  private TemplateFailure(String message, boolean raised) {
    super(message);
    this.raised = raised;
  }

  /** What the template itself throws with raise_exception. */
  static TemplateFailure raisedByTemplate(String message) {
    return new TemplateFailure(message, true);
  }

  boolean isRaised() {
    return raised;
  }
}
