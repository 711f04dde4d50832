package dev.halcyon.engine.model;

import dev.halcyon.engine.backend.RopeLayout;

/**
 * A family's rotary embeddings.
 *
 * @param theta rope_theta if left out
 * @param localTheta rope_local_base_freq if left out, where layers with a sliding window have a
 *     rotation of their own that rope_scaling leaves alone; 0 where they don't
 * @param layout which elements of a head rotate together
 * @param fullLayers whether layers without a sliding window rotate
 * @param scalingExtends whether a scaling makes room for more positions than
 *     max_position_embeddings says
 */
record RopeRule(
    double theta,
    double localTheta,
    RopeLayout layout,
    boolean fullLayers,
    boolean scalingExtends) {

  static final RopeRule PLAIN = new RopeRule(10_000, 0, RopeLayout.HALVES, true, true);
  static final RopeRule GLOBAL_AND_LOCAL =
      new RopeRule(1_000_000, 10_000, RopeLayout.HALVES, true, false);
  static final RopeRule SLIDING_LAYERS_INTERLEAVED =
      new RopeRule(10_000, 0, RopeLayout.INTERLEAVED, false, true);

  boolean localRotation() {
    return localTheta != 0;
  }
}
