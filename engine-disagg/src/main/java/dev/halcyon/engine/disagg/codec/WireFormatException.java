package dev.halcyon.engine.disagg.codec;

/** A payload is not what its format says; the message begins with the field that is wrong. */
public final class WireFormatException extends IllegalArgumentException {

  private static final long serialVersionUID = 1;

  private final String field;

  /**
   * @param field the path of the field, such as "first_gen_logits[0].shape"
   * @param problem what is wrong with it and what was expected
   */
  public WireFormatException(String field, String problem) {
    super(field + ": " + problem);
    this.field = field;
  }

  /** The path of the field that is wrong. */
  public String field() {
    return field;
  }
}
