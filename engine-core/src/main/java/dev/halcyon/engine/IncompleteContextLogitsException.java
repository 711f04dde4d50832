package dev.halcyon.engine;

/**
 * A request for context logits or prompt logprobs insisted on reusing cached prefix blocks ({@link
 * PrefixReuse#REQUIRED}), and so some rows of its prompt were never computed.
 */
public final class IncompleteContextLogitsException extends EngineException {

  private final int firstMissing;
  private final int endMissing;

  /**
   * @param firstMissing the first position without a row
   * @param endMissing the first position after it that would have one
   */
  public IncompleteContextLogitsException(int firstMissing, int endMissing) {
    super(
        String.format(
            "Rows %d to %d of the prompt were not computed, as their cached blocks were reused;"
                + " prefixReuse AUTO computes them",
            firstMissing, endMissing - 1));
    this.firstMissing = firstMissing;
    this.endMissing = endMissing;
  }

  /** The first position without a row. */
  public int firstMissing() {
    return firstMissing;
  }

  /** The position behind the last one without a row. */
  public int endMissing() {
    return endMissing;
  }
}
