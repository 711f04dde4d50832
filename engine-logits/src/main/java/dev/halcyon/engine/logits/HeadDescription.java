package dev.halcyon.engine.logits;

import java.util.List;

/**
 * What is known of a head before anything runs.
 *
 * @param weights how its weights are stored
 * @param sharding how they are spread over ranks
 * @param shardSizes the vocabulary entries that each rank holds; one element for a head on one rank
 * @param gathersOutput whether every rank ends up with whole rows
 * @param lora whether adapters change the head
 * @param localityPartitioned whether its rows are spread by locality rather than by rank
 */
public record HeadDescription(
    Weights weights,
    Sharding sharding,
    List<Integer> shardSizes,
    boolean gathersOutput,
    boolean lora,
    boolean localityPartitioned) {

  /** How weights are stored. */
  public enum Weights {
    F32,
    F16,
    BF16,
    /** Anything that isn't a dense matrix of one of the other types. */
    QUANTIZED
  }

  /** How weights are spread over ranks. */
  public enum Sharding {
    /** All on one rank. */
    NONE,
    /** Each rank holds some vocabulary entries, and puts out their logits. */
    COLUMN,
    /** Each rank holds some hidden dimensions, and puts out addends of all logits. */
    ROW
  }

  public HeadDescription {
    shardSizes = List.copyOf(shardSizes);
  }

  /** A dense head on one rank. */
  public static HeadDescription whole(Weights weights, int vocabSize) {
    return new HeadDescription(weights, Sharding.NONE, List.of(vocabSize), true, false, false);
  }
}
