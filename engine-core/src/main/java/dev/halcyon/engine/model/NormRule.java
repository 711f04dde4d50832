package dev.halcyon.engine.model;

/**
 * A family's norms.
 *
 * @param epsKey the key of epsilon
 * @param eps epsilon if left out
 * @param weightOffset what is added to the stored weights of RMS norms
 */
record NormRule(NormKind kind, String epsKey, double eps, float weightOffset) {

  static final NormRule RMS = new NormRule(NormKind.RMS, "rms_norm_eps", 1e-6, 0);
  static final NormRule RMS_LESS_ONE = new NormRule(NormKind.RMS, "rms_norm_eps", 1e-6, 1);
  static final NormRule LAYER = new NormRule(NormKind.LAYER, "layer_norm_eps", 1e-5, 0);
}
