package dev.halcyon.engine.logits;

/**
 * A language-model head as the plan sees it: the projection from hidden rows to logits, with
 * whatever transform (scale, softcap) belongs to the head.
 */
public interface LmHead {

  /** What decides whether the head can be projected in bounded chunks. */
  HeadDescription description();

  /** The elements of a hidden row. */
  int hiddenSize();

  /** The size of one element of a hidden row in bytes. */
  int hiddenElementBytes();

  /** The elements of a row of logits, of all ranks together. */
  int vocabSize();

  /**
   * The elements of a row that this rank's part of the head puts out: an equal share of the columns
   * on every rank, which are gathered; or all of them, {@link #vocabSize}, where the head makes
   * whole rows on each rank by itself.
   */
  int shardSize();

  /** The element type of what {@link #project} writes. */
  LogitsType outputType();

  /**
   * Projects hidden rows and applies the head's transform.
   *
   * @param hidden [rows, hiddenSize]
   * @param out [rows, shardSize] of {@link #outputType()}
   */
  void project(DeviceBuffer hidden, int rows, DeviceBuffer out);

  /** The head by tiles of the vocabulary; null if it puts out whole rows only. */
  default TiledHead tiled() {
    return null;
  }
}
