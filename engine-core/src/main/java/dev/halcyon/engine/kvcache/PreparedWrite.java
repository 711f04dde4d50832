package dev.halcyon.engine.kvcache;

/**
 * What has to happen before a position may be written.
 *
 * @param outcome whether the position may be written, and where
 * @param copy for {@link Outcome#COPY} the copy to do first, otherwise null
 */
public record PreparedWrite(Outcome outcome, BlockCopy copy) {

  static final PreparedWrite IN_PLACE = new PreparedWrite(Outcome.IN_PLACE, null);
  static final PreparedWrite OUT_OF_BLOCKS = new PreparedWrite(Outcome.OUT_OF_BLOCKS, null);

  /** The ways in which a write can be prepared. */
  public enum Outcome {
    /** The table's block is its own: write. */
    IN_PLACE,
    /** The table has a new block in place of a shared one: copy, then write. */
    COPY,
    /** A new block is needed and none is to be had; nothing was changed. */
    OUT_OF_BLOCKS
  }
}
